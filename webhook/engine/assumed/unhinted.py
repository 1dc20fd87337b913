"""Pods of ours that were bound unhinted, and so without a hint: when their NUMA nodes are known, and what is kept.

A kubelet gives a pod the first NUMA nodes with room at the moment it admits it. What it gave is known where the NRT
and the pods bound since tell all that happened:
1. The NRT's fingerprint says which pods it has counted, and all of them live: what it shows as free was free then.
2. No other pod was there that may have ended since, so no room was taken or came free unseen.
3. The pods bound since were seen bound one after the other, by a watch that had no gap: kubelets go by that order.
4. All of them up to this one were seen started: none was rejected.
5. Admitted one after the other they come to what their hints say, where they have one.
Of any other pod nothing is known: all of it is kept on every NUMA node until its NRT counts it. So is all of those
that were bound after it with a hint, or of which a list does not tell whether they were: that hint may have been given
without knowing of it.

Where koordlet gives pods the NUMA nodes that their annotations name, nothing is to be found out: each is given some.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts
from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod


class Doubt(Enum):
    """Why the NUMA nodes of a pod are not known."""

    NOT_COUNTED = "its node's NodeResourceTopology does not say which pods it has counted"
    ENDED = "another pod ended there, and its node's NodeResourceTopology may or may not have counted that"
    NOT_SEEN = "it is not known in which order pods were bound there, or which pods ended meanwhile"
    NOT_STARTED = "its kubelet has not yet started it and all pods that were bound before"
    DIFFERS = "its kubelet's choice differs from a replay in the order of bindings"
    TOO_MANY = "too many pods were bound since its node's NodeResourceTopology was written"
    NO_ROOM = "no NUMA node has room"


@dataclass(frozen=True, slots=True)
class Replayed:
    """Of one pod."""

    numa: NumaAmounts
    """What it holds, if that is known; else all of it on each NUMA node on which it may be."""
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True)
class Unhinted:
    """Pods bound to one node that its NRT has not counted, some of them without a hint."""

    admissions: Sequence[ResidentPod]
    """In the order of binding, as far as it is known."""
    asked: Collection[str]
    """The keys of those of which something is to be found out: the first one without a hint, and all after it."""
    residents: Sequence[ResidentPod]
    """The other pods."""
    doubt: Doubt | None = None
    """Why nothing can be known of them, if nothing can."""
    others: NodeSums = field(default_factory=NodeSums)
    """What others are promised on the node."""
    given: Mapping[str, NumaAmounts] = field(default_factory=dict)
    """What some of them were given before, where the NUMA nodes are ours to give."""


@dataclass(slots=True)
class _Left:
    """Pods that were bound to a node and are not any more."""

    turn: int = 0
    """The last turn that one of them had."""
    heard: float = -inf
    """When that was last heard of."""


class UnhintedPods:
    """By node, with what was replayed of each."""

    def __init__(self) -> None:
        self._on: dict[str, Sequence[ResidentPod]] = {}
        self._replayed: dict[str, Replayed] = {}
        self._open: set[str] = set()
        self._turns: dict[str, int] = {}
        self._turn = 0
        self._gap = 0
        self._left: dict[str, _Left] = {}

    def bound(self, pod: str) -> None:
        """The pod was seen bound, after all that were before."""
        self._turn += 1
        self._turns[pod] = self._turn

    def listed(self) -> None:
        """What was told last comes from a list: of what happened before nothing is known, nor of its order."""
        self._gap = self._turn

    def left(self, pod: ResidentPod, heard: float) -> None:
        """A bound pod is gone or has ended, as was heard then. heard: seconds since the epoch."""
        self._replayed.pop(pod.key, None)
        turn = self._turns.pop(pod.key, 0)
        if pod.exclusive_resources:
            left = self._left.setdefault(pod.node, _Left())
            left.turn, left.heard = max(left.turn, turn), max(left.heard, heard)

    def forget(self, pod: str) -> None:
        """The pod has a hint now."""
        self._replayed.pop(pod, None)

    def forget_node(self, node: str) -> None:
        """There is neither an NRT nor a pod."""
        self._left.pop(node, None)

    def put(self, node: str, not_reported: Sequence[ResidentPod], *, outage: bool = False) -> None:
        """Take in the pods of a node that its NRT has not counted, with a hint or not; all is to be found out again.

        outage: some pods have come there unhinted that it has counted, and others may have come after them.
        """
        self._on.pop(node, None)
        self._open.discard(node)
        if not_reported and (outage or any(pod.unhinted for pod in not_reported)):
            self._on[node] = self.in_order(not_reported)
            self._open.add(node)

    def had_outage(self, pods: Iterable[ResidentPod]) -> bool:
        """Whether some were bound unhinted, and some with a hint, and it is not known which came first."""
        listed = [pod for pod in pods if not self._turn_of(pod)]
        return any(pod.unhinted for pod in listed) and any(pod.hint for pod in listed)

    def bound_after(self, pod: str, others: Iterable[str]) -> frozenset[str]:
        """Those of the others that were, or may have been, bound after the pod."""
        turn = self._turns.get(pod, 0)
        return frozenset(other for other in others if self._turns.get(other, 0) >= turn)

    def in_order(self, pods: Iterable[ResidentPod]) -> Sequence[ResidentPod]:
        """The pods as they were seen bound; those from a list by their stamps, to the second, and by name."""
        return sorted(pods, key=lambda pod: (self._turn_of(pod), pod.bound_at or 0, pod.key))

    def to_replay(self) -> Sequence[str]:
        """The nodes of which that is to be found out."""
        return tuple(self._open)

    def admissions(self, node: str) -> tuple[Sequence[ResidentPod], Collection[str]]:
        """The pods that the node's NRT has not counted, and the keys of those from the first one without a hint on."""
        pods = self._on[node]
        first = next((n for n, pod in enumerate(pods) if pod.unhinted), 0)
        turn = self._turn_of(pods[first])
        return pods, {pod.key for n, pod in enumerate(pods) if n >= first or self._turn_of(pod) == turn}

    def doubt(
        self, topology: NodeTopology, counted: frozenset[str] | None, bound: Collection[str], settle: float
    ) -> Doubt | None:
        """Why nothing can be known of the node's unhinted pods, if nothing can: rules 1 to 3.

        counted, bound: the keys of the pods that the fingerprint covers, and of those that live there. settle: seconds
        from a pod's end to the first NRT written that cannot have counted it.
        """
        if counted is None:
            return Doubt.NOT_COUNTED
        if not counted <= set(bound):
            return Doubt.ENDED
        last = max((self._turns.get(key, 0) for key in counted), default=0)
        turns = [self._turn_of(pod) for pod in self._on[topology.node] if pod.exclusive_resources]
        if min(turns, default=inf) <= max(last, self._gap):
            return Doubt.NOT_SEEN
        # A pod bound before one that is counted was admitted before it: not being counted, it had ended by then.
        left = self._left.get(topology.node)
        if left is None or left.turn < last or left.heard + settle < (topology.written_at or -inf):
            return None
        return Doubt.ENDED

    def keep(self, node: str, replayed: Mapping[str, Replayed]) -> None:
        """Take what was replayed of the node's arrivals as they are now."""
        self._open.discard(node)
        self._replayed.update(replayed)

    def on(self, node: str) -> Sequence[tuple[ResidentPod, Replayed]]:
        """Those of the node, and those bound after them, as far as they were looked at."""
        pods = self._on.get(node, ())
        return [(pod, replayed) for pod in pods if (replayed := self._replayed.get(pod.key)) is not None]

    def doubtful(self, node: str) -> frozenset[int]:
        """NUMA ids that may have more free than is kept."""
        return frozenset(numa for _, replayed in self.on(node) if replayed.doubt is not None for numa in replayed.numa)

    def nodes(self) -> Collection[str]:
        """Where there are any."""
        return self._on.keys()

    def _turn_of(self, pod: ResidentPod) -> int:
        """Those that were in a list have none of their own."""
        turn = self._turns.get(pod.key, 0)
        return turn if turn > self._gap else 0
