"""What a kubelet has given to pods that were bound to it unhinted, and so without a hint: found out afterwards.

Where nothing is in doubt (see `assumed.unhinted`) the pods that the node's NRT has not counted are admitted once more,
in the order of binding, on the node as the NRT shows it. What comes out is what the kubelet did, up to the first pod
that comes out otherwise than it is seen.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from webhook.engine.arrays import NO_ZONE
from webhook.engine.assumed.unhinted import Doubt, Replayed, Unhinted
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

# An admission takes some 0.2 ms; as many pods as a fingerprint is taken apart into (see `assumed.reported`).
_MOST_ADMISSIONS: Final = 16

# Whatever the settings: kubelets know nothing of plugins and scores.
_AS_KUBELETS_DO: Final = Options()
_THE_NODE: Final = np.ones(1, dtype=np.bool_)


def replay(node: NodeAlone, unhinted: Unhinted) -> Mapping[str, Replayed]:
    """What became of each pod that is asked about, by key. node: with the residents."""
    sums = unhinted.others.copy()
    for pod in unhinted.admissions:  # the scheduler has counted them
        sums.add({}, _requests(pod), None, -1)
    snapshot = node.snapshot(sums)
    if snapshot.node_arrays.total[0]:
        return _given(node, sums, unhinted)
    known: Mapping[str, NumaAmounts] = {}
    doubt = unhinted.doubt
    if doubt is None and len(unhinted.admissions) > _MOST_ADMISSIONS:
        doubt = Doubt.TOO_MANY
    if doubt is None:
        known, doubt = _admitted(node, sums, unhinted)
    return {
        pod.key: Replayed(known[pod.key]) if pod.key in known else Replayed(_anywhere(snapshot, pod), doubt)
        for pod in unhinted.admissions
        if pod.key in unhinted.asked
    }


def _admitted(node: NodeAlone, sums: NodeSums, unhinted: Unhinted) -> tuple[Mapping[str, NumaAmounts], Doubt | None]:
    """What each was given, up to the first one that is in doubt, and why that one is."""
    known: dict[str, NumaAmounts] = {}
    for position, pod in enumerate(unhinted.admissions):
        if not pod.started:
            return known, Doubt.NOT_STARTED
        place = _place(node.snapshot(sums, unhinted.admissions[:position]), pod)
        if place is None or (pod.hint is not None and place != dict(pod.hint)):
            return known, Doubt.DIFFERS
        sums.add(place, _requests(pod), pod.policy, 1)
        known[pod.key] = place
    return known, None


def _given(node: NodeAlone, sums: NodeSums, unhinted: Unhinted) -> Mapping[str, Replayed]:
    """A place for each, where koordlet does as it is told. Who was given one keeps it: its hint may be on its way."""
    found: dict[str, Replayed] = {}
    for pod in sorted(unhinted.admissions, key=lambda pod: pod.key not in unhinted.given):
        place = unhinted.given.get(pod.key)
        if place is None:
            place = _place(node.snapshot(sums), pod)
        found[pod.key] = Replayed({}, Doubt.NO_ROOM) if place is None else Replayed(place)
        sums.add(place or {}, _requests(pod), pod.policy, 1)
    return found


def _place(snapshot: Snapshot, pod: ResidentPod) -> NumaAmounts | None:
    """What the pod takes of each NUMA node of the view's one; None if it finds no room."""
    request = PodRequest.of_resident(pod, snapshot.node_arrays.resources)
    fit, intruding = on_numa_nodes(snapshot, request, _AS_KUBELETS_DO, _THE_NODE)
    if not fit.fits[0]:
        return None
    # Of exclusivity kubelets know nothing either.
    if intruding is not None and request.exclusive is Exclusive.REQUIRED and snapshot.node_arrays.total[0]:
        return None
    return dict(fit.allocation(0))


def _anywhere(snapshot: Snapshot, pod: ResidentPod) -> NumaAmounts:
    """All that a kubelet's managers give the pod, on every NUMA node."""
    demand = Demand.of(PodRequest.of_resident(pod, snapshot.node_arrays.resources))
    total = {demand.names[row]: amount for row, amount in demand.pod.amounts.items() if amount > 0}
    return dict.fromkeys(_numa_ids(snapshot), total) if total else {}


def _numa_ids(snapshot: Snapshot) -> Iterable[int]:
    return (numa_id for numa_id in snapshot.node_arrays.zone_ids[:, 0].tolist() if numa_id != NO_ZONE)


def _requests(pod: ResidentPod) -> Mapping[str, int]:
    return {**pod.requests, PODS: 1}
