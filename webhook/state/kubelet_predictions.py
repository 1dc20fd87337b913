"""Predicts what kubelets give to pods: to one that may be bound next, and to those bound without an allocation.

All methods take the `node_arrays` of the latest update, so that ledger and arrays show the same moment.

What a kubelet gave to pods that were bound without an allocation is replayed. If that can be certain (see
`assumed.unallocated`), the pods that the node's NRT has not counted are admitted again, in the order of binding, on the
node as the NRT shows it. The result is what the kubelet did, up to the first pod whose result differs from its
allocation.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from webhook.engine.arrays import NO_ZONE
from webhook.engine.decide import on_numa_nodes
from webhook.engine.kubelet.demand import Demand
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts
from webhook.engine.snapshot.single_node import NodeAlone, is_free, less, node_alone
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.internal_errors import Where, contained, internal_error
from webhook.model.options import Options
from webhook.model.policy import Exclusive
from webhook.model.raw import Raw
from webhook.model.resources import PODS
from webhook.state.assumed.assumed_pods import AssumedPods
from webhook.state.assumed.unallocated import Replayed, Unallocated, WhyUnknown
from webhook.state.kubelet_admission import AssignedPod, KubeletAdmission, allocation_certainty, given_on, of_resident

# An admission takes about 0.2 ms. The limit is the number of pods that a fingerprint is searched for (see
# `reported_pods`).
_MOST_ADMISSIONS: Final = 16

# Fixed, whatever the settings: kubelets have neither plugins nor scores.
_AS_KUBELETS_DO: Final = Options()
_THE_NODE: Final = np.ones(1, dtype=np.bool_)


def replay(node: NodeAlone, unallocated: Unallocated) -> Mapping[str, Replayed]:
    """The result for each pod in question, by key. node: with its residents."""
    sums = unallocated.others.copy()
    for pod in unallocated.admissions:  # the scheduler has checked the node as a whole
        sums.add({}, _requests(pod), None, -1)
    snapshot = node.snapshot(sums)
    if snapshot.node_arrays.total[0]:
        return _given(node, sums, unallocated)
    known: Mapping[str, NumaAmounts] = {}
    why_unknown = unallocated.why_unknown
    if why_unknown is None and len(unallocated.admissions) > _MOST_ADMISSIONS:
        why_unknown = WhyUnknown.TOO_MANY
    if why_unknown is None:
        known, why_unknown = _admitted(node, sums, unallocated)
    return {
        pod.key: Replayed(known[pod.key]) if pod.key in known else Replayed(_anywhere(snapshot, pod), why_unknown)
        for pod in unallocated.admissions
        if pod.key in unallocated.asked
    }


def _admitted(
    node: NodeAlone, sums: NodeSums, unallocated: Unallocated
) -> tuple[Mapping[str, NumaAmounts], WhyUnknown | None]:
    """What each pod was given, up to the first uncertain one, and why that one is uncertain."""
    known: dict[str, NumaAmounts] = {}
    for position, pod in enumerate(unallocated.admissions):
        if not pod.started:
            return known, WhyUnknown.NOT_STARTED
        numa = _allocation(node.snapshot(sums, unallocated.admissions[:position]), pod)
        if numa is None or (pod.allocation is not None and numa != dict(pod.allocation)):
            return known, WhyUnknown.DIFFERS
        sums.add(numa, _requests(pod), pod.policy, 1)
        known[pod.key] = numa
    return known, None


def _given(node: NodeAlone, sums: NodeSums, unallocated: Unallocated) -> Mapping[str, Replayed]:
    """NUMA nodes for each pod where koordlet follows allocations. A pod keeps earlier ones: they may be on the way."""
    found: dict[str, Replayed] = {}
    for pod in sorted(unallocated.admissions, key=lambda pod: pod.key not in unallocated.given):
        numa = unallocated.given.get(pod.key)
        if numa is None:
            numa = _allocation(node.snapshot(sums), pod)
        found[pod.key] = Replayed({}, WhyUnknown.NO_ROOM) if numa is None else Replayed(numa)
        sums.add(numa or {}, _requests(pod), pod.policy, 1)
    return found


def _allocation(snapshot: Snapshot, pod: ResidentPod) -> NumaAmounts | None:
    """What the pod takes of each NUMA node of the only node; None if it does not fit."""
    request = PodRequest.of_resident(pod, snapshot.node_arrays.resources)
    fit, intruding = on_numa_nodes(snapshot, request, _AS_KUBELETS_DO, _THE_NODE)
    if not fit.fits[0]:
        return None
    # Kubelets ignore exclusivity, too.
    if intruding is not None and request.exclusive is Exclusive.REQUIRED and snapshot.node_arrays.total[0]:
        return None
    return dict(fit.allocation(0))


def _anywhere(snapshot: Snapshot, pod: ResidentPod) -> NumaAmounts:
    """Everything that a kubelet's managers give the pod, on every NUMA node."""
    demand = Demand.of(PodRequest.of_resident(pod, snapshot.node_arrays.resources))
    total = {demand.names[row]: amount for row, amount in demand.pod.amounts.items() if amount > 0}
    return dict.fromkeys(_numa_ids(snapshot), total) if total else {}


def _numa_ids(snapshot: Snapshot) -> Iterable[int]:
    return (numa_id for numa_id in snapshot.node_arrays.zone_ids[:, 0].tolist() if numa_id != NO_ZONE)


def _requests(pod: ResidentPod) -> Mapping[str, int]:
    return {**pod.requests, PODS: 1}


_NOT_CERTAIN: Final = "its kubelet may have chosen any of several, and the NodeResourceTopology does not show which"


@dataclass(frozen=True, slots=True)
class AllocationBackfill:
    """The result for one pod: an allocation, or the reason why it gets none."""

    pod: str
    """namespace/name."""
    uid: str
    allocation: NUMAAllocation | None
    why_unassigned: str = ""

    @classmethod
    def of(
        cls, pod: ResidentPod, replayed: Replayed, kubelet_admission: KubeletAdmission | None
    ) -> "AllocationBackfill":
        """The result for a replayed pod. kubelet_admission: its node as other pods left it; None: unknown node."""
        allocation = NUMAAllocation(pod.node, tuple(sorted(replayed.numa.items())))
        if (
            replayed.why_unknown is None
            and kubelet_admission is not None
            and is_free(kubelet_admission.assumed_snapshot(), allocation.numa_nodes)
        ):
            return cls(pod.key, pod.uid, allocation)
        why = (replayed.why_unknown or WhyUnknown.DIFFERS).value
        return cls(
            pod.key,
            pod.uid,
            None,
            f"bound to {pod.node} while no replica answered, and without a NUMA allocation: {why}",
        )

    @classmethod
    def not_certain(cls, pod: ResidentPod) -> "AllocationBackfill":
        """The result for a pod whose kubelet may have chosen other NUMA nodes than the replayed ones."""
        why = f"bound to {pod.node}, and without a NUMA allocation: {_NOT_CERTAIN}"
        return cls(pod.key, pod.uid, None, why)


# An unmanaged pod with more containers gets no prediction: it could take a second, and any user can create such a pod.
_MOST_CONTAINERS: Final = 4


class KubeletPredictions:
    """Predicts from bound, assigned and assumed pods. waiting: the pods that are not bound, by namespace/name."""

    def __init__(self, assumed_pods: AssumedPods, ledger: Ledger, waiting: Mapping[str, Raw]) -> None:
        self._assumed_pods = assumed_pods
        self._ledger = ledger
        self._waiting = waiting

    def admission(self, node_arrays: NodeArrays, node: str, pod: str, now: float) -> KubeletAdmission | None:
        """The node as the pod namespace/name will find it when bound to it; None if the node is unknown."""
        residents = [resident for resident in self._assumed_pods.bound_to(node) if resident.key != pod]
        alone = node_alone(node_arrays, node, residents)
        if alone is None:
            return None
        assigned = [reservation for reservation in self._assumed_pods.assigned(node) if reservation.pod != pod]
        own = self._ledger.get(pod)
        # A tentative reservation blocks no other pod: the pod that is bound first gets the resources.
        others = [reservation for reservation in self._assumed_pods.tentative(node) if reservation.pod != pod]
        given = less(self._ledger.sums(node), node, [*assigned, *others, *(() if own is None else (own,))])
        waiting = [(reservation, self._waiting.get(reservation.pod)) for reservation in assigned]
        return KubeletAdmission(
            alone,
            given,
            tuple(AssignedPod(reservation, raw) for reservation, raw in waiting if raw is not None),
            own,
            self._assumed_pods.leeway(node, pod, now),
        )

    def replay_newcomer(self, node_arrays: NodeArrays, newcomer: ResidentPod, now: float) -> None:
        """Reserve what a kubelet gives to an unmanaged pod that was just bound, because other pods cannot use it."""
        if len(newcomer.containers) > _MOST_CONTAINERS:
            return
        kubelet_admission = self.admission(node_arrays, newcomer.node, newcomer.key, now)
        if kubelet_admission is None or self._assumed_pods.is_counted(newcomer):
            return
        request_on = of_resident(newcomer)
        given = given_on(kubelet_admission.kubelet_snapshot(), request_on)
        if given:
            replayed = allocation_certainty(kubelet_admission, request_on, given)
            self._assumed_pods.keep_for(newcomer, dict(given), replayed.alternatives, sure=replayed.sure)

    def replay_unallocated(self, node_arrays: NodeArrays) -> None:
        """Replay the admissions of pods without an allocation on the nodes that have changed."""
        for node in self._assumed_pods.replay.nodes():
            try:
                unallocated = self._assumed_pods.replay.of(node)
                if (alone := node_alone(node_arrays, node, unallocated.residents)) is not None:
                    self._assumed_pods.replay.keep(node, replay(alone, unallocated))
            except Exception as error:  # noqa: BLE001 # a fault on one node must not break every snapshot
                internal_error(Where.NODE, error, node=node)
                self._assumed_pods.replay.give_up(node)

    def allocation_backfills(self, node_arrays: NodeArrays, now: float) -> Iterator[AllocationBackfill]:
        """The allocation for each unreported pod that was bound without one, or the reason why it has none.

        Includes pods whose allocation has been uncertain for so long that the NRT should have shown its NUMA nodes.
        """
        for pod in self._assumed_pods.uncertain(now):
            yield AllocationBackfill.not_certain(pod)
        for pod, replayed in self._assumed_pods.replay.results(now):
            if replayed.numa or replayed.why_unknown is not None:
                backfill = None
                with contained(Where.POD, pod=pod.key):
                    backfill = AllocationBackfill.of(pod, replayed, self.admission(node_arrays, pod.node, pod.key, now))
                if backfill is not None:
                    yield backfill
