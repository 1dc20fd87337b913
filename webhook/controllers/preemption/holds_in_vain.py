"""What follows from holds that ended in vain: pods ended for a preemptor that did not get their place.

1. The nodes of such a hold are chosen for no preemptor until its victims are gone and the node has a newer
   NodeResourceTopology: a kubelet that hangs ends no pod, and an exporter that hangs shows no room.
2. After some in a row, no pods are chosen at all: the next would end in vain, too. If all were of one namespace, that
   goes for this namespace alone: its tenant may be the cause. It is over when a preemptor gets its place, or one of
   these nodes can be chosen again. In the latter case one more in vain is enough to stop again.

Pure: times are given, in seconds of one clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from webhook.controllers.preemption.holds import MOST_HOLDS, Hold
from webhook.model.bound_pod import BoundPod

# One node may fail at any time, and a second one with it. Three holds without a success in between are a common fault.
MOST_IN_VAIN: Final = 3
# A node whose NodeResourceTopology does not change, or that has none, is tried again. Its victims are in vain
# once an hour at most.
_LONGEST_SECONDS: Final = 3600.0

PAUSED: Final = (
    "pods of lower priority would end for it, but preemption is paused: "
    f"{MOST_IN_VAIN} places in a row were freed in vain"
)
"""What a preemptor waits for meanwhile."""


@dataclass(frozen=True, slots=True)
class _Node:
    victims: Mapping[str, str]
    """namespace/name -> uid of the hold's victims."""
    written_at: int | None
    """When its NodeResourceTopology was written that was known when the hold ended; None if there was none."""
    until: float


class HoldsInVain:
    """The nodes of holds that ended in vain. written_at: the age of a node's NodeResourceTopology, by its name."""

    def __init__(self, written_at: Callable[[str], int | None]) -> None:
        self.closed: frozenset[str] = frozenset()
        """The nodes that are not chosen."""
        self._written_at = written_at
        self._nodes: dict[str, _Node] = {}
        self._in_a_row: list[str] = []
        """The namespaces of the last holds without a success in between."""

    @property
    def is_paused(self) -> bool:
        """Whether no pods are chosen for some namespace."""
        return any(map(self.is_paused_for, set(self._in_a_row)))

    def is_paused_for(self, namespace: str) -> bool:
        """Whether no pods are chosen for preemptors of this namespace."""
        of_several = len(set(self._in_a_row)) > 1 and len(self._in_a_row) >= MOST_IN_VAIN
        return of_several or self._in_a_row.count(namespace) >= MOST_IN_VAIN

    def failed(self, hold: Hold, now: float) -> None:
        """The hold ended in vain."""
        self._in_a_row = [*self._in_a_row, hold.namespace][-MOST_HOLDS:]
        for node in hold.nodes:
            self._nodes[node] = _Node({**hold.earlier, **hold.victims}, self._written_at(node), now + _LONGEST_SECONDS)
        self.closed = frozenset(self._nodes)

    def succeeded(self) -> None:
        """A preemptor got its place."""
        self._in_a_row.clear()

    def update(self, now: float, bound: Mapping[str, BoundPod]) -> None:
        """Open the nodes that can be chosen again. bound: the bound pods by namespace/name."""
        opened = [name for name, node in self._nodes.items() if now > node.until or self._reports(name, node, bound)]
        for name in opened:
            del self._nodes[name]
        if opened:
            self.closed = frozenset(self._nodes)
            self._in_a_row = self._in_a_row[-(MOST_IN_VAIN - 1) :]

    def _reports(self, name: str, node: _Node, bound: Mapping[str, BoundPod]) -> bool:
        written_at = self._written_at(name)
        if written_at is None or (node.written_at is not None and written_at <= node.written_at):
            return False
        return not any(key in bound and bound[key].uid == uid for key, uid in node.victims.items())
