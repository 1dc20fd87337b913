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
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology
from webhook.state.assumed.binding_order import BindingOrder


class WhyUnknown(Enum):
    """Why the NUMA nodes of an unhinted pod are unknown."""

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
    why_unknown: WhyUnknown | None = None


@dataclass(frozen=True, slots=True)
class Unhinted:
    """The input of a replay: the unreported pods of one node, some of them unhinted."""

    admissions: Sequence[ResidentPod]
    """The unreported pods in the order of binding, as far as it is known."""
    asked: Collection[str]
    """The keys of the pods that need a result: the first unhinted one, and all after it."""
    residents: Sequence[ResidentPod]
    """The other pods bound to the node."""
    why_unknown: WhyUnknown | None = None
    """Why no replay is possible; None if one is."""
    others: NodeSums = field(default_factory=NodeSums)
    """What is reserved for other pods on the node, where the service assigns NUMA nodes."""
    given: Mapping[str, NumaAmounts] = field(default_factory=dict)
    """Pod -> what it was assigned before, where the service assigns NUMA nodes."""


@dataclass(slots=True)
class _Left:
    """The pods that were bound to a node and have ended or are gone."""

    position: int = 0
    """The highest position that one of them had in the order of binding."""
    heard: float = -inf
    """When the last such end was received, in seconds since the epoch."""


class UnhintedPods:
    """The unreported pods of the nodes that have unhinted ones, and the replay result of each pod."""

    def __init__(self, order: BindingOrder) -> None:
        self._order = order
        self._on: dict[str, Sequence[ResidentPod]] = {}
        self._replayed: dict[str, Replayed] = {}
        self._open: set[str] = set()
        self._left: dict[str, _Left] = {}

    def left(self, pod: ResidentPod, heard: float) -> None:
        """Record that a bound pod is gone or has ended. heard: when that was received, in seconds since the epoch."""
        self._replayed.pop(pod.key, None)
        position = self._order.forget(pod.key)
        if pod.exclusive_resources:
            left = self._left.setdefault(pod.node, _Left())
            left.position, left.heard = max(left.position, position), max(left.heard, heard)

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
            self._on[node] = self._order.in_order(not_reported)
            self._open.add(node)

    def had_outage(self, pods: Iterable[ResidentPod]) -> bool:
        """Whether unhinted and hinted pods came from a list, so that it is unknown which were bound first."""
        listed = [pod for pod in pods if not self._order.known_position(pod.key)]
        return any(pod.unhinted for pod in listed) and any(pod.hint for pod in listed)

    def to_replay(self) -> Sequence[str]:
        """The nodes that need a replay."""
        return tuple(self._open)

    def admissions(self, node: str) -> tuple[Sequence[ResidentPod], Collection[str]]:
        """The node's unreported pods, and the keys of the first unhinted one and of all that may have come after it."""
        pods = self._on[node]
        first = next((n for n, pod in enumerate(pods) if pod.unhinted), 0)
        position = self._order.known_position
        at = position(pods[first].key)
        return pods, {pod.key for n, pod in enumerate(pods) if n >= first or position(pod.key) == at}

    def why_unknown(
        self, topology: NodeTopology, counted: frozenset[str] | None, bound: Collection[str], settle: float
    ) -> WhyUnknown | None:
        """Why no replay of the node's unhinted pods is possible, by rules 1 to 3; None if one is.

        counted: the keys of the pods that the fingerprint covers; None if unknown. bound: of those that are alive on
        the node. settle: an NRT written more seconds than this after a pod's end cannot report the pod.
        """
        if counted is None:
            return WhyUnknown.NOT_COUNTED
        if not counted <= set(bound):
            return WhyUnknown.ENDED
        last = max(map(self._order.position, counted), default=0)
        waiting = [pod.key for pod in self._on[topology.node] if pod.exclusive_resources]
        if min(map(self._order.known_position, waiting), default=inf) <= max(last, self._order.gap):
            return WhyUnknown.NOT_SEEN
        # A pod bound before a reported one was admitted before it. If it is not reported, it had ended before the scan.
        left = self._left.get(topology.node)
        if left is None or left.position < last or left.heard + settle < (topology.written_at or -inf):
            return None
        return WhyUnknown.ENDED

    def keep(self, node: str, replayed: Mapping[str, Replayed]) -> None:
        """Store the replay results of the node's unreported pods. The node then needs no replay until `put`."""
        self._open.discard(node)
        self._replayed.update(replayed)

    def on(self, node: str) -> Sequence[tuple[ResidentPod, Replayed]]:
        """The node's unreported pods that have a replay result, in the order of binding."""
        pods = self._on.get(node, ())
        return [(pod, replayed) for pod in pods if (replayed := self._replayed.get(pod.key)) is not None]

    def nodes(self) -> Collection[str]:
        """The nodes that need a replay or have its results."""
        return self._on.keys()
