"""What a kubelet has given to pods that were bound to it unguarded, and so without a hint: found out afterwards.

Where nothing is in doubt (see `assumed.unhinted`) the pods that the node's NRT has not counted are admitted once more,
in the order of binding, on the node as the NRT shows it. What comes out is what the kubelet did, up to the first pod
that comes out otherwise than it is seen.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from webhook.engine.arrays import NO_ZONE
from webhook.engine.assumed.unhinted import Doubt, Foreseen, Unguarded
from webhook.engine.decide import on_numa_nodes
from webhook.engine.kubelet.demand import Demand
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts
from webhook.engine.snapshot.single_node import NodeAlone
from webhook.engine.snapshot.snapshot import View
from webhook.model.options import Options
from webhook.model.policy import Exclusive
from webhook.model.resident import ResidentPod
from webhook.model.resources import PODS

# An admission takes some 0.2 ms; as many pods as a fingerprint is taken apart into (see `assumed.reported`).
_MOST_ADMISSIONS: Final = 16

# Whatever the settings: kubelets know nothing of plugins and scores.
_AS_KUBELETS_DO: Final = Options()
_THE_NODE: Final = np.ones(1, dtype=np.bool_)


def foresee(node: NodeAlone, unguarded: Unguarded) -> Mapping[str, Foreseen]:
    """What became of each pod that is asked about, by key. node: with the residents."""
    sums = unguarded.others.copy()
    for pod in unguarded.arrivals:  # the scheduler has counted them
        sums.add({}, _requests(pod), None, -1)
    view = node.view(sums)
    if view.snapshot.total[0]:
        return _given(node, sums, unguarded)
    known: Mapping[str, NumaAmounts] = {}
    doubt = unguarded.doubt
    if doubt is None and len(unguarded.arrivals) > _MOST_ADMISSIONS:
        doubt = Doubt.TOO_MANY
    if doubt is None:
        known, doubt = _admitted(node, sums, unguarded)
    return {
        pod.key: Foreseen(known[pod.key]) if pod.key in known else Foreseen(_anywhere(view, pod), doubt)
        for pod in unguarded.arrivals
        if pod.key in unguarded.asked
    }


def _admitted(node: NodeAlone, sums: NodeSums, unguarded: Unguarded) -> tuple[Mapping[str, NumaAmounts], Doubt | None]:
    """What each was given, up to the first one that is in doubt, and why that one is."""
    known: dict[str, NumaAmounts] = {}
    for position, pod in enumerate(unguarded.arrivals):
        if not pod.started:
            return known, Doubt.NOT_STARTED
        place = _place(node.view(sums, unguarded.arrivals[:position]), pod)
        if place is None or (pod.hint is not None and place != dict(pod.hint)):
            return known, Doubt.DIFFERS
        sums.add(place, _requests(pod), pod.policy, 1)
        known[pod.key] = place
    return known, None


def _given(node: NodeAlone, sums: NodeSums, unguarded: Unguarded) -> Mapping[str, Foreseen]:
    """A place for each, where koordlet does as it is told. Who was given one keeps it: its hint may be on its way."""
    found: dict[str, Foreseen] = {}
    for pod in sorted(unguarded.arrivals, key=lambda pod: pod.key not in unguarded.given):
        place = unguarded.given.get(pod.key)
        if place is None:
            place = _place(node.view(sums), pod)
        found[pod.key] = Foreseen({}, Doubt.NO_ROOM) if place is None else Foreseen(place)
        sums.add(place or {}, _requests(pod), pod.policy, 1)
    return found


def _place(view: View, pod: ResidentPod) -> NumaAmounts | None:
    """What the pod takes of each NUMA node of the view's one; None if it finds no room."""
    request = PodRequest.of_resident(pod, view.snapshot.resources)
    fit, intruding = on_numa_nodes(view, request, _AS_KUBELETS_DO, _THE_NODE)
    if not fit.fits[0]:
        return None
    # Of exclusivity kubelets know nothing either.
    if intruding is not None and request.exclusive is Exclusive.REQUIRED and view.snapshot.total[0]:
        return None
    return dict(fit.allocation(0))


def _anywhere(view: View, pod: ResidentPod) -> NumaAmounts:
    """All that a kubelet's managers give the pod, on every NUMA node."""
    demand = Demand.of(PodRequest.of_resident(pod, view.snapshot.resources))
    total = {demand.names[row]: amount for row, amount in demand.pod.amounts.items() if amount > 0}
    return dict.fromkeys(_numa_ids(view), total) if total else {}


def _numa_ids(view: View) -> Iterable[int]:
    return (numa_id for numa_id in view.snapshot.zone_ids[:, 0].tolist() if numa_id != NO_ZONE)


def _requests(pod: ResidentPod) -> Mapping[str, int]:
    return {**pod.requests, PODS: 1}
