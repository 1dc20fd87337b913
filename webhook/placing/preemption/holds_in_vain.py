"""What follows from holds without effect: pods were evicted for a preemptor that did not get their place.

1. The nodes of such a hold are chosen for no preemptor until its victims are gone and the node has a newer
   NodeResourceTopology: a kubelet that hangs ends no pod, and an exporter that hangs shows no room.
2. After some in a row, no pods are chosen at all: evicting more would not help. If all were of one namespace, that goes
   for this namespace alone: its tenant may be the cause. It is over when a preemptor gets its place, or one of
   these nodes can be chosen again. In the latter case one more without effect is enough to stop again.
3. A preemptor that is deleted after evictions began for it leaves them to others. After some in a row of one
   namespace, no pods are chosen for that namespace for a minute, and for twice as long after each further one, until a
   preemptor of it gets its place. Otherwise a tenant could evict pod after pod by creating and deleting one.

Pure: times are given, in seconds of one clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.placing.preemption.holds import MOST_HOLDS, Hold

# One node may fail at any time, and a second one with it. Three holds without a success in between are a common fault.
MOST_IN_VAIN: Final = 3
# A node whose NodeResourceTopology does not change, or that has none, is tried again. Its victims are evicted
# for nothing once an hour at most.
_LONGEST_SECONDS: Final = 3600.0
# After abandoned places: 1 min, 2, 4 ... 64, as for a kind of preemptors whose holds had no effect.
_ABANDONED_SECONDS: Final = 60.0
_MOST_DOUBLINGS: Final = 6

PAUSED: Final = (
    "lower-priority pods would be preempted for it, but preemption is paused: "
    f"nodes were freed without effect {MOST_IN_VAIN} times in a row"
)
"""What a preemptor waits for meanwhile."""


@dataclass(frozen=True, slots=True)
class _Node:
    victims: Mapping[str, str]
    """namespace/name -> uid of the hold's victims."""
    written_at: int | None
    """When its NodeResourceTopology was written that was known when the hold ended; None if there was none."""
    until: float


@dataclass(frozen=True, slots=True)
class _Abandoned:
    number: int
    until: float
    """No pods are chosen for the namespace before."""


class HoldsInVain:
    """The nodes of holds without effect. written_at: the age of a node's NodeResourceTopology, by its name."""

    def __init__(self, written_at: Callable[[str], int | None]) -> None:
        self.closed: frozenset[str] = frozenset()
        """The nodes that are not chosen."""
        self._written_at = written_at
        self._nodes: dict[str, _Node] = {}
        self._in_a_row: list[str] = []
        """The namespaces of the last holds without a success in between."""
        self._abandoned: dict[str, _Abandoned] = {}
        """By namespace, since its last success."""
        self._waiting: frozenset[str] = frozenset()
        """The namespaces for which no pods are chosen because of abandoned places."""

    @property
    def is_paused(self) -> bool:
        """Whether no pods are chosen for some namespace."""
        return bool(self._waiting) or any(map(self.is_paused_for, set(self._in_a_row)))

    def is_paused_for(self, namespace: str) -> bool:
        """Whether no pods are chosen for preemptors of this namespace."""
        of_several = len(set(self._in_a_row)) > 1 and len(self._in_a_row) >= MOST_IN_VAIN
        return of_several or namespace in self._waiting or self._in_a_row.count(namespace) >= MOST_IN_VAIN

    def failed(self, hold: Hold, now: float) -> None:
        """The hold had no effect."""
        self._in_a_row = [*self._in_a_row, hold.namespace][-MOST_HOLDS:]
        for node in hold.nodes:
            self._nodes[node] = _Node({**hold.earlier, **hold.victims}, self._written_at(node), now + _LONGEST_SECONDS)
        self.closed = frozenset(self._nodes)

    def abandoned(self, namespace: str, now: float) -> None:
        """A preemptor of the namespace was deleted after evictions had begun for it."""
        known = self._abandoned.get(namespace)
        number = 1 if known is None else known.number + 1
        doublings = min(number - MOST_IN_VAIN, _MOST_DOUBLINGS)
        until = now + _ABANDONED_SECONDS * 2**doublings if doublings >= 0 else now
        self._abandoned[namespace] = _Abandoned(number, until)
        self._wait(now)

    def succeeded(self, namespace: str) -> None:
        """A preemptor of the namespace got its place."""
        self._in_a_row.clear()
        self._abandoned.pop(namespace, None)
        self._waiting -= {namespace}

    def update(self, now: float, bound: Mapping[str, BoundPod]) -> None:
        """Open the nodes that can be chosen again. bound: the bound pods by namespace/name."""
        self._abandoned = {name: one for name, one in self._abandoned.items() if now <= one.until + _LONGEST_SECONDS}
        self._wait(now)
        opened = [name for name, node in self._nodes.items() if now > node.until or self._reports(name, node, bound)]
        for name in opened:
            del self._nodes[name]
        if opened:
            self.closed = frozenset(self._nodes)
            self._in_a_row = self._in_a_row[-(MOST_IN_VAIN - 1) :]

    def _wait(self, now: float) -> None:
        self._waiting = frozenset(name for name, one in self._abandoned.items() if now < one.until)

    def _reports(self, name: str, node: _Node, bound: Mapping[str, BoundPod]) -> bool:
        written_at = self._written_at(name)
        if written_at is None or (node.written_at is not None and written_at <= node.written_at):
            return False
        return not any(key in bound and bound[key].uid == uid for key, uid in node.victims.items())
