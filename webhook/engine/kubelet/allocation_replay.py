"""Replay of what a kubelet gave to pods that were bound without a hint.

If that is certain (see `assumed.unhinted`), the pods that the node's NRT has not counted are admitted again, in
the order of binding, on the node as the NRT shows it. The result is what the kubelet did, up to the first pod whose
result differs from its hint.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from webhook.engine.arrays import NO_ZONE
from webhook.engine.assumed.unhinted import Replayed, Unhinted, WhyUnknown
from webhook.engine.decide import on_numa_nodes
from webhook.engine.kubelet.demand import Demand
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts
from webhook.engine.snapshot.single_node import NodeAlone
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.options import Options
from webhook.model.policy import Exclusive
from webhook.model.resident import ResidentPod
from webhook.model.resources import PODS

# An admission takes about 0.2 ms. The limit is the number of pods that a fingerprint is searched for (see
# `assumed.reported`).
_MOST_ADMISSIONS: Final = 16

# Fixed, whatever the settings: kubelets have neither plugins nor scores.
_AS_KUBELETS_DO: Final = Options()
_THE_NODE: Final = np.ones(1, dtype=np.bool_)


def replay(node: NodeAlone, unhinted: Unhinted) -> Mapping[str, Replayed]:
    """The result for each pod in question, by key. node: with its residents."""
    sums = unhinted.others.copy()
    for pod in unhinted.admissions:  # the scheduler has checked the node as a whole
        sums.add({}, _requests(pod), None, -1)
    snapshot = node.snapshot(sums)
    if snapshot.node_arrays.total[0]:
        return _given(node, sums, unhinted)
    known: Mapping[str, NumaAmounts] = {}
    why_unknown = unhinted.why_unknown
    if why_unknown is None and len(unhinted.admissions) > _MOST_ADMISSIONS:
        why_unknown = WhyUnknown.TOO_MANY
    if why_unknown is None:
        known, why_unknown = _admitted(node, sums, unhinted)
    return {
        pod.key: Replayed(known[pod.key]) if pod.key in known else Replayed(_anywhere(snapshot, pod), why_unknown)
        for pod in unhinted.admissions
        if pod.key in unhinted.asked
    }


def _admitted(
    node: NodeAlone, sums: NodeSums, unhinted: Unhinted
) -> tuple[Mapping[str, NumaAmounts], WhyUnknown | None]:
    """What each pod was given, up to the first uncertain one, and why that one is uncertain."""
    known: dict[str, NumaAmounts] = {}
    for position, pod in enumerate(unhinted.admissions):
        if not pod.started:
            return known, WhyUnknown.NOT_STARTED
        numa = _allocation(node.snapshot(sums, unhinted.admissions[:position]), pod)
        if numa is None or (pod.hint is not None and numa != dict(pod.hint)):
            return known, WhyUnknown.DIFFERS
        sums.add(numa, _requests(pod), pod.policy, 1)
        known[pod.key] = numa
    return known, None


def _given(node: NodeAlone, sums: NodeSums, unhinted: Unhinted) -> Mapping[str, Replayed]:
    """NUMA nodes for each pod, where koordlet follows hints. A pod keeps earlier ones: its hint may be on the way."""
    found: dict[str, Replayed] = {}
    for pod in sorted(unhinted.admissions, key=lambda pod: pod.key not in unhinted.given):
        numa = unhinted.given.get(pod.key)
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
