"""Managed pods that were bound unhinted: when their NUMA nodes can be replayed, and what is reserved until then.

A kubelet gives a pod the first NUMA nodes with room when it admits the pod. Its choice is known if the NRT and the pods
bound since show all that happened:
1. The NRT's fingerprint says which pods it reports, and all of them are alive: what it shows as free was free then.
2. No other pod was there that may have ended since, so no room was taken or freed unseen.
3. The pods bound since were seen bound one after the other, by a watch without a gap: kubelets admit in that order.
4. All of them up to this pod were seen started: none was rejected.
5. A replay in that order agrees with the hints of those that have one.
The NUMA nodes of any other pod are unknown: all that it holds is reserved on every NUMA node until its NRT reports it.
The same goes for pods with a hint that were bound after it, or may have been as far as a list shows: their hints may
have been decided without knowing of it.

Where koordlet gives pods the NUMA nodes that their annotations name, the service assigns them instead.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts
from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod


class Doubt(Enum):
    """Why the NUMA nodes of a pod are unknown."""

    NOT_COUNTED = "its node's NodeResourceTopology does not say which pods it has counted"
    ENDED = "another pod ended there, and its node's NodeResourceTopology may or may not have counted that"
    NOT_SEEN = "it is not known in which order pods were bound there, or which pods ended meanwhile"
    NOT_STARTED = "its kubelet has not yet started it and all pods that were bound before"
    DIFFERS = "its kubelet's choice differs from a replay in the order of bindings"
    TOO_MANY = "too many pods were bound since its node's NodeResourceTopology was written"
    NO_ROOM = "no NUMA node has room"


@dataclass(frozen=True, slots=True)
class Replayed:
    """Replay result for one pod."""

    numa: NumaAmounts
    """What the pod holds, if that is known; else its total on each NUMA node where it may be."""
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True)
class Unhinted:
    """The input of a replay: the unreported pods of one node, some of them unhinted."""

    admissions: Sequence[ResidentPod]
    """The unreported pods in the order of binding, as far as it is known."""
    asked: Collection[str]
    """The keys of the pods that need a result: the first unhinted one, and all after it."""
    residents: Sequence[ResidentPod]
    """The other pods bound to the node."""
    doubt: Doubt | None = None
    """Why no replay is possible; None if one is."""
    others: NodeSums = field(default_factory=NodeSums)
    """What is reserved for other pods on the node, where the service assigns NUMA nodes."""
    given: Mapping[str, NumaAmounts] = field(default_factory=dict)
    """Pod -> what it was assigned before, where the service assigns NUMA nodes."""


@dataclass(slots=True)
class _Left:
    """The pods that were bound to a node and have ended or are gone."""

    turn: int = 0
    """The highest turn that one of them had."""
    heard: float = -inf
    """When the last such end was received, in seconds since the epoch."""


class UnhintedPods:
    """The unreported pods of the nodes that have unhinted ones, and the replay result of each pod."""

    def __init__(self) -> None:
        self._on: dict[str, Sequence[ResidentPod]] = {}
        self._replayed: dict[str, Replayed] = {}
        self._open: set[str] = set()
        self._turns: dict[str, int] = {}
        self._turn = 0
        self._gap = 0
        self._left: dict[str, _Left] = {}

    def bound(self, pod: str) -> None:
        """Record that a pod was seen bound. The order of the calls is the order of binding."""
        self._turn += 1
        self._turns[pod] = self._turn

    def listed(self) -> None:
        """Record that the last pod came from a list. What happened before, and in which order, is unknown."""
        self._gap = self._turn

    def left(self, pod: ResidentPod, heard: float) -> None:
        """Record that a bound pod is gone or has ended. heard: when that was received, in seconds since the epoch."""
        self._replayed.pop(pod.key, None)
        turn = self._turns.pop(pod.key, 0)
        if pod.exclusive_resources:
            left = self._left.setdefault(pod.node, _Left())
            left.turn, left.heard = max(left.turn, turn), max(left.heard, heard)

    def forget(self, pod: str) -> None:
        """Drop the pod's replay result: it is not unhinted any more."""
        self._replayed.pop(pod, None)

    def forget_node(self, node: str) -> None:
        """Remove a node that has neither an NRT nor a pod."""
        self._left.pop(node, None)

    def put(self, node: str, not_reported: Sequence[ResidentPod], *, outage: bool = False) -> None:
        """Replace the unreported pods of a node, hinted or not. If some are unhinted, the node needs a new replay.

        outage: reported pods of the node were bound unhinted, and others may have been bound after them. Then it needs
        one too.
        """
        self._on.pop(node, None)
        self._open.discard(node)
        if not_reported and (outage or any(pod.unhinted for pod in not_reported)):
            self._on[node] = self.in_order(not_reported)
            self._open.add(node)

    def had_outage(self, pods: Iterable[ResidentPod]) -> bool:
        """Whether unhinted and hinted pods came from a list, so that it is unknown which were bound first."""
        listed = [pod for pod in pods if not self._turn_of(pod)]
        return any(pod.unhinted for pod in listed) and any(pod.hint for pod in listed)

    def bound_after(self, pod: str, others: Iterable[str]) -> frozenset[str]:
        """The pods among `others` that were bound after `pod`, or may have been."""
        turn = self._turns.get(pod, 0)
        return frozenset(other for other in others if self._turns.get(other, 0) >= turn)

    def in_order(self, pods: Iterable[ResidentPod]) -> Sequence[ResidentPod]:
        """The pods in the order in which they were seen bound. Those from a list come first, by second and name."""
        return sorted(pods, key=lambda pod: (self._turn_of(pod), pod.bound_at or 0, pod.key))

    def to_replay(self) -> Sequence[str]:
        """The nodes that need a replay."""
        return tuple(self._open)

    def admissions(self, node: str) -> tuple[Sequence[ResidentPod], Collection[str]]:
        """The node's unreported pods, and the keys of the first unhinted one and of all that may have come after it."""
        pods = self._on[node]
        first = next((n for n, pod in enumerate(pods) if pod.unhinted), 0)
        turn = self._turn_of(pods[first])
        return pods, {pod.key for n, pod in enumerate(pods) if n >= first or self._turn_of(pod) == turn}

    def doubt(
        self, topology: NodeTopology, counted: frozenset[str] | None, bound: Collection[str], settle: float
    ) -> Doubt | None:
        """Why no replay of the node's unhinted pods is possible, by rules 1 to 3; None if one is.

        counted: the keys of the pods that the fingerprint covers; None if unknown. bound: of those that are alive on
        the node. settle: an NRT written more seconds than this after a pod's end cannot report the pod.
        """
        if counted is None:
            return Doubt.NOT_COUNTED
        if not counted <= set(bound):
            return Doubt.ENDED
        last = max((self._turns.get(key, 0) for key in counted), default=0)
        turns = [self._turn_of(pod) for pod in self._on[topology.node] if pod.exclusive_resources]
        if min(turns, default=inf) <= max(last, self._gap):
            return Doubt.NOT_SEEN
        # A pod bound before a reported one was admitted before it. If it is not reported, it had ended before the scan.
        left = self._left.get(topology.node)
        if left is None or left.turn < last or left.heard + settle < (topology.written_at or -inf):
            return None
        return Doubt.ENDED

    def keep(self, node: str, replayed: Mapping[str, Replayed]) -> None:
        """Store the replay results of the node's unreported pods. The node then needs no replay until `put`."""
        self._open.discard(node)
        self._replayed.update(replayed)

    def on(self, node: str) -> Sequence[tuple[ResidentPod, Replayed]]:
        """The node's unreported pods that have a replay result, in the order of binding."""
        pods = self._on.get(node, ())
        return [(pod, replayed) for pod in pods if (replayed := self._replayed.get(pod.key)) is not None]

    def doubtful(self, node: str) -> frozenset[int]:
        """The NUMA ids that may have more free than the ledger says."""
        return frozenset(numa for _, replayed in self.on(node) if replayed.doubt is not None for numa in replayed.numa)

    def nodes(self) -> Collection[str]:
        """The nodes that need a replay or have its results."""
        return self._on.keys()

    def _turn_of(self, pod: ResidentPod) -> int:
        """The position of the pod in the order of binding; 0 for pods from a list, whose order is unknown."""
        turn = self._turns.get(pod.key, 0)
        return turn if turn > self._gap else 0
