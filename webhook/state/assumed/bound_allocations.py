"""The NUMA nodes of bound pods, and of pods that are being bound, and the events that make them uncertain.

A kubelet gives a pod the first NUMA nodes with room when the pod arrives. Its choice is replayed at the binding. The
result becomes uncertain if
1. another pod ended while this one was on its way, or was rejected by its kubelet;
2. a pod came first whose NUMA nodes are unknown: without an allocation, or with that of an assignment only (see 3);
3. the pod was assigned before, and was then bound without a review by the leader: its allocation says so.
The node's NodeResourceTopology settles it if only one placement is possible (see `known_placements`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.known_placements import (
    AllocationChange,
    Alternatives,
    Certainty,
    Known,
    KnownAllocations,
    reported_placements,
)
from webhook.state.assumed.unreported import held


@dataclass(frozen=True, slots=True)
class Arrived:
    """A pod with an allocation that is on a node, or on its way there."""

    pod: str
    """namespace/name."""
    allocation: NumaAmounts
    certain: bool
    """Whether it is there in any case."""
    uncertain: bool
    """Whether it is known already that it may have other NUMA nodes."""
    may_find: bool
    """Whether the freed room may have been free when it arrived."""


@dataclass(slots=True)
class _Zones:
    """What the earlier pods hold on each NUMA node when the next pod arrives."""

    topology: NodeTopology
    held: dict[int, list[Mapping[str, int]]] = field(default_factory=dict)
    """NUMA id -> amounts of the pods that are certainly there."""
    come: dict[int, list[Mapping[str, int]]] = field(default_factory=dict)
    """NUMA id -> amounts of the pods that may be there but were not replayed there."""

    def have_room(self, numa_id: int, amounts: Mapping[str, int], *, at_least: bool = False) -> bool:
        """Whether there may be room. at_least: whether there is room in any case."""
        zone = next((zone for zone in self.topology.zones if zone.id == numa_id), None)
        if zone is None:
            return False
        there = added([*self.held.get(numa_id, ()), *(self.come.get(numa_id, ()) if at_least else ()), amounts])
        return all(name not in zone.resources or zone.resources[name].allocatable >= there[name] for name in there)


def displaced(
    arrived: Iterable[Arrived], room: Collection[int], topology: NodeTopology
) -> Mapping[str, frozenset[int]]:
    """Pod -> the NUMA nodes on which it may be besides those of its allocation; only pods that have any.

    Room may have been freed or taken unseen. A kubelet gives each pod the first NUMA nodes with room, in the order of
    arrival. A pod that found room on a lower NUMA node is not where it was replayed. The pods that came after it may be

    - on the NUMA node that it left free, if that is lower than their own;
    - on any other NUMA node with room, if theirs has no room left.

    More room makes a kubelet prefer a lower NUMA node, never a higher one. A NUMA node has room for a pod if it can
    allocate the pod's amounts beside all pods that came before and are certainly there.

    arrived: in the order of arrival. room: the NUMA nodes on which room was freed.
    """
    zones = _Zones(topology)
    left: set[int] = set()
    found: dict[str, frozenset[int]] = {}
    for pod in arrived:
        others = frozenset() if pod.certain else _elsewhere(pod, room, left, zones)
        if others:
            found[pod.pod] = others
            left |= pod.allocation.keys()
            whole = added(pod.allocation.values())
            for numa_id in others:
                zones.come.setdefault(numa_id, []).append(whole)
        elif not pod.uncertain:
            for numa_id, amounts in pod.allocation.items():
                zones.held.setdefault(numa_id, []).append(amounts)
    return found


def _elsewhere(pod: Arrived, room: Collection[int], left: Collection[int], zones: _Zones) -> frozenset[int]:
    everywhere: Sequence[int] = [zone.id for zone in zones.topology.zones]
    if all(zones.have_room(numa_id, amounts, at_least=True) for numa_id, amounts in pod.allocation.items()):
        free = {*(room if pod.may_find else ()), *left}
        everywhere = [numa_id for numa_id in everywhere if numa_id in free and numa_id < max(pod.allocation)]
    whole = added(pod.allocation.values())
    # The share that a pod on several NUMA nodes would take of another one is unknown.
    fits = len(pod.allocation) > 1
    return frozenset(
        numa_id for numa_id in everywhere if numa_id not in pod.allocation and (fits or zones.have_room(numa_id, whole))
    )


# A deleted pod that showed no end time ended at most this many seconds before the deletion was received.
_HEARD_SECONDS: Final = 2.0
_SURE: Final = frozenset({Certainty.CONFIRMED, Certainty.CHOSEN})


class BoundAllocations:
    """The known NUMA nodes and the alternatives of each pod (namespace/name)."""

    def __init__(self, pods: Mapping[str, ResidentPod]) -> None:
        """pods: all known pods, bound or assigned; the caller updates it."""
        self._pods = pods
        self._newcomers: list[ResidentPod] = []
        self._known = KnownAllocations()
        self._alternatives = Alternatives()

    def assume(self, assumed_pod: AssumedPod) -> None:
        """Record what the pod was given, in place of an earlier assumption. Only a binding decides its NUMA nodes."""
        self._alternatives.forget(assumed_pod.pod)
        self._known.forget_assumed(assumed_pod.pod)
        if assumed_pod.is_binding:
            self._known.assume(assumed_pod)
            self._alternatives.also(assumed_pod.pod, assumed_pod.alternatives)

    def replayed(self, pod: ResidentPod, numa: NumaAmounts, alternatives: frozenset[int], *, sure: bool) -> None:
        """Record the replay result of an unmanaged pod that was just bound. The service never writes its allocation."""
        self._known.replayed(pod, numa, sure=sure)
        self._alternatives.also(pod.key, alternatives)

    def forget_assumed(self, pod: str) -> None:
        """Forget what the pod was given: its binding will not be written."""
        self._alternatives.forget(pod)
        self._known.forget_assumed(pod)

    def seen(self, pod: ResidentPod, before: ResidentPod | None, topology: NodeTopology | None) -> None:
        """Record a bound pod. before: its previous state; None if it is new."""
        self._known.seen(pod, unreviewed=pod.unreviewed and not _is_chosen(topology))
        first = before is None or before.uid != pod.uid or not before.node
        if first and pod.exclusive_resources and not (pod.unallocated or self.is_located(pod)):
            self._newcomers.append(pod)

    def published(self, topology: NodeTopology, on_node: Iterable[ResidentPod]) -> None:
        """Record the first NRT of a node. on_node: the pods bound there, which were seen before."""
        if _is_chosen(topology):
            for pod in on_node:
                self._known.trust(pod.key)

    def applied(self, pod: ResidentPod) -> ResidentPod:
        """The pod with the known NUMA nodes in place of its allocation; the pod as it is if none are known."""
        return self._known.applied(pod)

    def is_located(self, pod: ResidentPod) -> bool:
        """Whether the pod has an allocation, or its NUMA nodes are known without one."""
        return self._known.is_located(pod)

    def is_unknown(self, pod: ResidentPod) -> bool:
        """Whether a newly bound pod's NUMA nodes are unknown: no allocation, or a binding without a review."""
        known = self._known.get(pod.key)
        if known is not None and not known.ours and known.certainty is Certainty.UNCERTAIN:
            return True
        return not self.is_located(pod)

    def as_ended(self, pod: ResidentPod) -> ResidentPod:
        """The same for a pod that has ended. NUMA nodes that were uncertain are unknown."""
        uncertain = self._known.certainty(pod.key) is Certainty.UNCERTAIN
        return replace(pod, allocation=None) if uncertain else self._known.applied(pod)

    def forget(self, pod: str, uid: str) -> None:
        """Remove the pod. Another pod of the same name, with another uid, stays."""
        self._known.forget(pod, uid)
        if self._known.get(pod) is None:
            self._alternatives.forget(pod)

    def left_room(
        self,
        ended: ResidentPod,
        on_node: Sequence[ResidentPod],
        later: frozenset[str],
        assumed_pods: Iterable[AssumedPod],
        topology: NodeTopology | None,
        now: float,
    ) -> frozenset[str]:
        """The pods that may have other NUMA nodes because a pod of their node ended, if that was not known before.

        on_node: the pods bound there, in the order of binding. later: the keys of those bound after the ended pod.
        assumed_pods: those on their way there. now: when the end was received.
        """
        if topology is None or _is_chosen(topology):
            return frozenset()
        others = [self.applied(pod) for pod in on_node if pod.key != ended.key]
        came = [
            self._arrived(pod.key, held(pod), _may_have_come_after(pod, ended, now, later=pod.key in later))
            for pod in others
            if pod.allocation
        ]
        came += [
            self._arrived(assumed_pod.pod, assumed_pod.numa, may_find=True)
            for assumed_pod in assumed_pods
            if assumed_pod.numa
        ]
        found = displaced(came, self._room_of(ended, topology), topology)
        return frozenset(
            pod for pod, numa_ids in found.items() if not self._is_anywhere(pod) and self._may_be(pod, numa_ids)
        )

    def came_before(self, assumed_pod: AssumedPod, topology: NodeTopology | None) -> bool:
        """Record that a pod with unknown NUMA nodes may have come before this one. True if this adds alternatives."""
        if not assumed_pod.numa or _is_chosen(topology) or self.certainty(assumed_pod.pod) in _SURE:
            return False
        return topology is not None and self._may_be(assumed_pod.pod, _others(topology, assumed_pod.numa))

    def locate(
        self,
        topology: NodeTopology,
        counted: Sequence[ResidentPod],
        on_node: Sequence[ResidentPod],
        assumed_pods: Sequence[AssumedPod],
    ) -> Mapping[str, NumaAmounts]:
        """Read an NRT that reports the pods `counted`. The NUMA nodes of those for which the NRT alone is proof.

        on_node, assumed_pods: as for `left_room`.
        """
        found = reported_placements(topology, counted, self._known, self._alternatives)
        moved = False
        for pod in on_node:
            if pod.key in found.placements:
                moved |= self._is_moved(pod.key, found.placements[pod.key])
                certainty = Certainty.CONFIRMED if pod.key in found.certain else Certainty.REPLAYED
                self._known.locate(pod.key, found.placements[pod.key], certainty)
                if found.placements[pod.key] is not None:
                    self._alternatives.forget(pod.key)
            elif moved and pod.allocation and self.certainty(pod.key) is Certainty.REPLAYED:
                # Its replay assumed other NUMA nodes for the moved pod.
                self._may_be(pod.key, _others(topology, held(pod)))
        for assumed_pod in assumed_pods if moved else ():
            self._may_be(assumed_pod.pod, _others(topology, assumed_pod.numa))
        return found.certain

    def known(self, pod: str) -> Known | None:
        """What is known of the pod's NUMA nodes; None if nothing is."""
        return self._known.get(pod)

    def certainty(self, pod: str) -> Certainty | None:
        """How certain the pod's NUMA nodes are; None if nothing is known."""
        return self._known.certainty(pod)

    def widened(self, pod: str, allocation: NumaAmounts) -> NumaAmounts:
        """The amounts to reserve for a pod: `allocation`, and its total on each alternative."""
        return self._alternatives.widened(pod, allocation)

    def alternatives_until(self, pod: ResidentPod, age: float) -> float:
        """When the alternatives of a bound pod are no longer reserved; inf if it has none."""
        return self._alternatives.until(pod, age)

    def anywhere(self, pod: str, kept: NumaAmounts, topology: NodeTopology) -> NumaAmounts:
        """What an uncertain pod may hold on each NUMA node beyond `kept`, its reservation."""
        ids = self._alternatives.ids(pod) or frozenset(zone.id for zone in topology.zones)
        known = self._known.get(pod)
        total = added(known.numa.values()) if known is not None else {}
        beyond: dict[int, Mapping[str, int]] = {}
        for numa_id in ids:
            here = kept.get(numa_id, {})
            rest = {name: amount - here.get(name, 0) for name, amount in total.items() if amount > here.get(name, 0)}
            if rest:
                beyond[numa_id] = rest
        return beyond

    def newcomers(self) -> Sequence[ResidentPod]:
        """The unmanaged pods with exclusive resources that were bound since the last call."""
        newcomers, self._newcomers = self._newcomers, []
        return newcomers

    def changes(self) -> Iterator[AllocationChange]:
        """The allocations to write or remove, as of the last `AssumedPods.settle`."""
        return self._known.changes(self._pods)

    def change(self, pod: str) -> AllocationChange | None:
        """The same for one pod; None if its allocation is as it should be."""
        return self._known.change(pod, self._pods)

    @property
    def has_changes(self) -> bool:
        """Whether some allocations have to be written or removed."""
        return self._known.has_changes

    def uncertain(self, bound_before: float) -> Iterator[ResidentPod]:
        """The pods whose NUMA nodes are too uncertain for an allocation. bound_before: by the API server's clock."""
        for key in self._known.uncertain:
            pod = self._pods.get(key)
            if pod is not None and pod.node and not pod.allocation and (pod.bound_at or 0) <= bound_before:
                yield pod

    def written(self, change: AllocationChange) -> None:
        """Record that this change was written to the pod."""
        self._known.written(change)

    def _room_of(self, ended: ResidentPod, topology: NodeTopology) -> frozenset[int]:
        """The NUMA ids where the ended pod may have held something. An uncertain allocation is not enough to tell."""
        known = self._known.get(ended.key)
        if known is not None and (known.certainty in _SURE or (known.ours and known.certainty is Certainty.REPLAYED)):
            return frozenset(known.numa)
        return _others(topology, {}) if ended.exclusive_resources else frozenset()

    def _arrived(self, pod: str, allocation: NumaAmounts, may_find: bool) -> Arrived:
        certainty = self.certainty(pod)
        return Arrived(pod, allocation, certainty in _SURE, certainty is Certainty.UNCERTAIN, may_find)

    def _is_moved(self, pod: str, numa: NumaAmounts | None) -> bool:
        """Whether the pod has other NUMA nodes than its replay said; False if the replay was uncertain."""
        known = self._known.get(pod)
        return known is not None and known.certainty is Certainty.REPLAYED and known.numa != numa

    def _is_anywhere(self, pod: str) -> bool:
        """Whether the pod is uncertain and has no alternatives: these would narrow down where it may be."""
        return self.certainty(pod) is Certainty.UNCERTAIN and pod not in self._alternatives

    def _may_be(self, pod: str, numa_ids: Iterable[int]) -> bool:
        news = self._alternatives.also(pod, numa_ids)
        self._known.make_uncertain(pod)
        return news


def _others(topology: NodeTopology, allocation: NumaAmounts) -> frozenset[int]:
    return frozenset(zone.id for zone in topology.zones if zone.id not in allocation)


def _may_have_come_after(pod: ResidentPod, ended: ResidentPod, now: float, *, later: bool) -> bool:
    """Whether the pod may have reached its kubelet after `ended` had ended. later: it was bound after `ended`."""
    if not pod.started:
        return True
    if ended.terminal and ended.ended_at is None:
        return later  # rejected, so it never held anything
    end = now - _HEARD_SECONDS if ended.ended_at is None else ended.ended_at
    return pod.started_at is not None and pod.started_at >= end


def _is_chosen(topology: NodeTopology | None) -> bool:
    """Whether only the allocation decides on NUMA nodes there: the kubelet does not align pods."""
    return topology is not None and (topology.publisher is Publisher.TOTAL or topology.policy is NUMAPolicy.NONE)
