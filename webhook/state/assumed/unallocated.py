"""Managed pods bound without an allocation: when their NUMA nodes can be replayed, and what is reserved until then.

A kubelet gives a pod the first NUMA nodes with room when it admits the pod. Its choice is known if the NRT and the pods
bound since show all that happened:
1. The NRT's fingerprint says which pods it reports, and all of them are alive: what it shows as free was free then.
2. No other pod was there that may have ended since, so no room was taken or freed unseen.
3. The pods bound since were seen bound one after the other, by a watch without a gap: kubelets admit in that order.
4. All of them up to this pod were seen started: none was rejected.
5. A replay in that order agrees with the allocations of those that have one.
The NUMA nodes of any other pod are unknown: all that it holds is reserved on every NUMA node until its NRT reports it.
The same goes for pods with an allocation that were bound after it, or may have been as far as a list shows: their
allocations may
have been decided without knowing of it.

Where koordlet gives pods the NUMA nodes that their annotations name, the service assigns them instead.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from math import inf

from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.state.assumed.node_state import NodeStates


class WhyUnknown(Enum):
    """Why the NUMA nodes of an pod without an allocation are unknown."""

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
class Unallocated:
    """The input of a replay: the unreported pods of one node, some of them unallocated."""

    admissions: Sequence[ResidentPod]
    """The unreported pods in the order of binding, as far as it is known."""
    asked: Collection[str]
    """The keys of the pods that need a result: the first unallocated one, and all after it."""
    residents: Sequence[ResidentPod]
    """The other pods bound to the node."""
    why_unknown: WhyUnknown | None = None
    """Why no replay is possible; None if one is."""
    others: NodeSums = field(default_factory=NodeSums)
    """What is reserved for other pods on the node, where the service assigns NUMA nodes."""
    given: Mapping[str, NumaAmounts] = field(default_factory=dict)
    """Pod -> what it was assigned before, where the service assigns NUMA nodes."""


class UnallocatedReplay:
    """The replay of pods without an allocation: which nodes need one, its input, and its results.

    Nodes to replay are as of the last `AssumedPods.settle`.
    """

    def __init__(self, states: NodeStates) -> None:
        self._states = states
        self._replayed: dict[str, Replayed] = {}
        self._unallocated: dict[str, None] = {}
        """The nodes that need a replay or have its results."""
        self._open: set[str] = set()

    def left(self, pod: ResidentPod, heard: float) -> None:
        """Record that a bound pod is gone or has ended. heard: when that was received, in seconds since the epoch."""
        self._replayed.pop(pod.key, None)
        position = self._states.order.forget(pod.key)
        if pod.exclusive_resources:
            state = self._states.at(pod.node)
            state.last_left = max(state.last_left, position)
            state.last_end_heard = max(state.last_end_heard, heard)

    def forget(self, pod: str) -> None:
        """Drop the pod's replay result: it is not unallocated any more."""
        self._replayed.pop(pod, None)

    def put(self, node: str, not_reported: Sequence[ResidentPod], *, outage: bool = False) -> None:
        """Replace a node's unreported pods, allocated or not. If some are unallocated, it needs a new replay.

        outage: reported pods of the node were bound without an allocation, and others may have been bound after them.
        Then it needs
        one too.
        """
        self._unallocated.pop(node, None)
        self._open.discard(node)
        to_admit: Sequence[ResidentPod] = ()
        if not_reported and (outage or any(pod.unallocated for pod in not_reported)):
            to_admit = self._states.order.in_order(not_reported)
            self._unallocated[node] = None
            self._open.add(node)
        self._states.at(node).to_admit = to_admit

    def had_outage(self, pods: Iterable[ResidentPod]) -> bool:
        """Whether unallocated and allocated pods came from a list, so that it is unknown which were bound first."""
        listed = [pod for pod in pods if not self._states.order.known_position(pod.key)]
        return any(pod.unallocated for pod in listed) and any(pod.allocation for pod in listed)

    def nodes(self) -> Sequence[str]:
        """The nodes on which the NUMA nodes of pods without an allocation need a replay."""
        return tuple(self._open)

    def of(self, node: str) -> Unallocated:
        """The input of the replay for one of `nodes`. They all have an NRT."""
        states, state = self._states, self._states.on(node)
        topology = state.topology
        if topology is None:
            raise KeyError(node)
        admissions, asked = state.to_admit, self._asked(state.to_admit)
        bound, keys = state.bound(), {pod.key for pod in admissions}
        residents = [pod for pod in bound if pod.key not in keys]
        if topology.publisher is not Publisher.TOTAL:
            living = {pod.key for pod in bound} - {pod.key for pod in states.ended(topology)}
            why_unknown = self._why_unknown(topology, states.reported(topology), living)
            return Unallocated(admissions, asked, residents, why_unknown)
        others = states.ledger.sums(node).copy()
        for shown in map(states.ledger.get, keys):
            if shown is not None and shown.node == node:
                others.add(shown.numa, shown.requests, shown.policy, -1)
        given = {pod.key: seen.numa for pod, seen in self.on(node) if seen.why_unknown is None}
        return Unallocated(admissions, asked, residents, None, others, given)

    def give_up(self, node: str) -> None:
        """Skip the replay of the node's pods until an object on the node changes."""
        self._open.discard(node)

    def keep(self, node: str, replayed: Mapping[str, Replayed]) -> None:
        """Reserve the result of the replay for the pods of the node. It then needs no replay until `put`."""
        self._open.discard(node)
        self._replayed.update(replayed)
        for reservation in self.reservations(node):
            if reservation.pod not in self._states.assumed:
                self._states.reserve(reservation)

    def on(self, node: str) -> Sequence[tuple[ResidentPod, Replayed]]:
        """The node's unreported pods that have a replay result, in the order of binding."""
        pods = self._states.on(node).to_admit
        return [(pod, replayed) for pod in pods if (replayed := self._replayed.get(pod.key)) is not None]

    def reservations(self, node: str) -> Iterator[Reservation]:
        """The reservations of the node's unreported pods by their replay."""
        for pod, replayed in self.on(node):
            if replayed.numa:
                yield Reservation.of(pod.key, node, replayed.numa, None, policy=pod.policy)

    def results(self, now: float) -> Iterator[tuple[ResidentPod, Replayed]]:
        """The managed pods that are bound, unallocated and unreported, with the replay result of each.

        Only pods that their kubelet must have admitted some time before `now`. A kubelet writes the statuses of pods in
        parallel, so the end of one pod may arrive after the start of the pod that took its room.
        """
        for pod, replayed in chain.from_iterable(map(self.on, self._unallocated)):
            if pod.unallocated and now >= (pod.bound_at or 0) + self._states.times.settle:
                yield pod, replayed

    def _asked(self, pods: Sequence[ResidentPod]) -> Collection[str]:
        """The keys of the first unallocated one of these pods, and of all that may have come after it."""
        first = next((n for n, pod in enumerate(pods) if pod.unallocated), 0)
        position = self._states.order.known_position
        at = position(pods[first].key)
        return {pod.key for n, pod in enumerate(pods) if n >= first or position(pod.key) == at}

    def _why_unknown(
        self, topology: NodeTopology, counted: frozenset[str] | None, bound: Collection[str]
    ) -> WhyUnknown | None:
        """Why no replay of the node's pods without an allocation is possible, by rules 1 to 3; None if one is.

        counted: the keys of the pods that the fingerprint covers; None if unknown. bound: of those that are alive on
        the node.
        """
        if counted is None:
            return WhyUnknown.NOT_COUNTED
        if not counted <= set(bound):
            return WhyUnknown.ENDED
        order, state = self._states.order, self._states.on(topology.node)
        last = max(map(order.position, counted), default=0)
        waiting = [pod.key for pod in state.to_admit if pod.exclusive_resources]
        if min(map(order.known_position, waiting), default=inf) <= max(last, order.gap):
            return WhyUnknown.NOT_SEEN
        # A pod bound before a reported one was admitted before it. If it is not reported, it had ended before the scan.
        heard = state.last_end_heard + self._states.times.settle
        if state.last_end_heard == -inf or state.last_left < last or heard < (topology.written_at or -inf):
            return None
        return WhyUnknown.ENDED
