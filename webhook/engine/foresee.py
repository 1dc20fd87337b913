"""What a kubelet has given to pods that were bound to it unguarded, and so without a hint: foreseen afterwards.

1. The pods that the node's NRT has not counted are admitted once more, from the first one without a hint to the last,
   on the node as it was before. Who watched them bound knows in which order; of pods that were found in a list the
   stamp tells, to the second. Where the order is not known every one is tried.
2. Whoever gave a hint need not have known of the pods without one. Where another place comes out than it says, both are
   taken and both doubted; so is where room may have come free. A kubelet may then have preferred a lower NUMA node.
3. A pod's place is known if it is the same in every order, and no lower NUMA node is in doubt. Among equal pods bound
   within one second the order makes no difference to the node, but to each of them.
4. Of the others it is known what they may have together. Where too many orders are to be tried that is anything.

Where the NUMA nodes are ours to choose nothing is foreseen: each pod is given a place, in the order of binding.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from webhook.engine.arrays import NO_ZONE
from webhook.engine.decide import on_numa_nodes
from webhook.engine.koordinator import ours_to_place
from webhook.engine.kubelet.demand import Demand
from webhook.engine.one_node import NodeAlone, is_free
from webhook.engine.options import Options
from webhook.engine.request import PodRequest
from webhook.engine.reserve.unguarded import Certainty, Foreseen, Together, Unguarded
from webhook.engine.sums import NodeSums, NumaAmounts, added
from webhook.engine.view import View
from webhook.model.policy import Exclusive
from webhook.model.resident import ResidentPod
from webhook.model.resources import PODS

# All orders of four different pods: 4 + 4x3 + 4x3x2 + 4x3x2 admissions of some 0.2 ms. Hints between them leave fewer.
_MOST_ADMISSIONS: Final = 64

# Whatever the settings: kubelets know nothing of plugins and scores.
_AS_KUBELETS_DO: Final = Options()
_THE_NODE: Final = np.ones(1, dtype=np.bool_)


def foresee(node: NodeAlone, unguarded: Unguarded) -> Mapping[str, Foreseen]:
    """What became of the arrivals without a hint, by key. node: with the residents."""
    arrivals = unguarded.arrivals
    sums = unguarded.before.copy()
    for pod in chain.from_iterable(arrivals):  # the scheduler has counted them
        sums.add({}, _requests(pod), None, -1)
    view = node.view(sums)
    ours = bool(ours_to_place(view.snapshot)[0])
    if ours:
        arrivals = [(pod,) for pod in chain.from_iterable(arrivals)]
    doubtful = unguarded.doubtful
    if not is_free(node.view(NodeSums(ended=sums.ended)), tuple(sums.numa.items())):
        doubtful = frozenset(_numa_ids(view))  # some hint is wrong
    orders = _Orders(node)
    if unguarded.in_time or ours:
        orders.follow(sums, doubtful, (), arrivals, {})
    unhinted = [[pod for pod in group if pod.hint is None] for group in arrivals]
    if orders.found and orders.left >= 0:
        return _in_all(orders.found, [alike for group in unhinted for alike in _alike(group)])
    return _anywhere(view, tuple(chain.from_iterable(unhinted)), _likely(orders.found))


class _Stay(NamedTuple):
    """One pod in one order. Both are empty for a pod that takes nothing of any NUMA node."""

    place: NumaAmounts | None
    """None: it finds no room."""
    wherever: NumaAmounts
    """The same, and all of it on each NUMA node that the kubelet may have preferred."""


class _Orders:
    """The orders of binding that are possible."""

    def __init__(self, node: NodeAlone) -> None:
        self.found: list[Mapping[str, _Stay]] = []
        self.left = _MOST_ADMISSIONS
        self._node = node

    def follow(
        self,
        sums: NodeSums,
        doubtful: frozenset[int],
        bound: Sequence[ResidentPod],
        rest: Sequence[Sequence[ResidentPod]],
        stays: Mapping[str, _Stay],
    ) -> None:
        """Have the rest, of which no group is empty, bound in every order after those that are bound."""
        if not rest:
            self.found.append(stays)
            return
        group, later = rest[0], rest[1:]
        view = self._node.view(sums, bound)
        for pod, *_ in _alike(group):
            self.left -= 1
            if self.left < 0:
                return
            stay = _stay(view, doubtful, pod)
            if pod.started and stay.place is None and not stay.wherever:
                continue
            taken, roomier = _taken(pod, stay)
            after = sums.copy()
            after.add({}, _requests(pod), None, 1)
            for place in taken:
                after.add(place, {}, pod.policy, 1)
            others = tuple(other for other in group if other is not pod)
            self.follow(
                after,
                doubtful | roomier,
                (*bound, pod),
                [others, *later] if others else later,
                {**stays, pod.key: stay},
            )


def _stay(view: View, doubtful: frozenset[int], pod: ResidentPod) -> _Stay:
    request = PodRequest.of_resident(pod, view.snapshot.resources)
    place = _place(view, request)
    if place is None:
        return _Stay(None, dict.fromkeys(doubtful, _total(request)))
    lower = [numa_id for numa_id in sorted(doubtful - place.keys()) if place and numa_id < max(place)]
    return _Stay(place, {**dict.fromkeys(lower, added(place.values())), **place})


def _taken(pod: ResidentPod, stay: _Stay) -> tuple[Sequence[NumaAmounts], frozenset[int]]:
    """What is taken by the pod for those that come after it, and on which NUMA ids that may not be so.

    Its hint may be wrong: who gave it may not have known of one that came before.
    """
    places = [place for place in (stay.place, None if pod.hint is None else dict(pod.hint)) if place]
    if pod.hint is None or stay.place == dict(pod.hint):
        del places[1:]
    sure = len(places) == 1 and stay.wherever.keys() == places[0].keys()
    return places, frozenset() if sure else frozenset().union(*places)


def _alike(pods: Iterable[ResidentPod]) -> Sequence[Sequence[ResidentPod]]:
    """The pods by kind. Nobody can tell those of one kind apart: a kubelet treats them alike, in an unknown order."""
    kinds: list[list[ResidentPod]] = []
    for pod in pods:
        known = next((alike for alike in kinds if _kind(alike[0]) == _kind(pod)), None)
        if known is None:
            kinds.append([pod])
        else:
            known.append(pod)
    return kinds


def _kind(pod: ResidentPod) -> object:
    asks = pod.requests, pod.containers, pod.pod_level, pod.qos, pod.policy, pod.exclusive
    return asks, pod.hint, pod.started


def _place(view: View, request: PodRequest) -> NumaAmounts | None:
    """What the pod takes of each NUMA node of the view's one; None if it finds no room."""
    fit, intruding = on_numa_nodes(view, request, _AS_KUBELETS_DO, _THE_NODE)
    if not fit.fits[0]:
        return None
    # Of exclusivity kubelets know nothing either.
    if intruding is not None and request.exclusive is Exclusive.REQUIRED and ours_to_place(view.snapshot)[0]:
        return None
    return dict(fit.allocation(0))


def _in_all(found: Sequence[Mapping[str, _Stay]], kinds: Iterable[Sequence[ResidentPod]]) -> Mapping[str, Foreseen]:
    """What is the same in all orders for all pods of a kind, and the others together."""
    foreseen: dict[str, Foreseen] = {}
    others: list[list[str]] = []
    for alike in kinds:
        keys = [pod.key for pod in alike]
        stay = found[0][keys[0]]
        if (stay.place or {}) != stay.wherever or any(stays[key] != stay for stays in found for key in keys):
            others.append(keys)
        else:
            certainty = Certainty.NO_ROOM if stay.place is None else Certainty.KNOWN
            foreseen.update(dict.fromkeys(keys, Foreseen(certainty, stay.wherever)))
    in_orders = [{key: stays[key].wherever for keys in others for key in keys} for stays in found]
    return {**foreseen, **_unknown(Together(others, in_orders, _likely(found)))}


def _likely(found: Sequence[Mapping[str, _Stay]]) -> Mapping[str, NumaAmounts]:
    return {key: stay.place or {} for key, stay in found[0].items()} if found else {}


def _anywhere(view: View, pods: Sequence[ResidentPod], likely: Mapping[str, NumaAmounts]) -> Mapping[str, Foreseen]:
    """All of each pod on every NUMA node."""
    totals = {pod.key: _total(PodRequest.of_resident(pod, view.snapshot.resources)) for pod in pods}
    stays = {key: dict.fromkeys(_numa_ids(view), total) for key, total in totals.items() if total}
    unknown = _unknown(Together([[key] for key in stays], [stays], likely))
    return {**dict.fromkeys(totals, Foreseen(Certainty.KNOWN)), **unknown}


def _unknown(together: Together) -> Mapping[str, Foreseen]:
    foreseen = Foreseen(Certainty.UNKNOWN, together=together)
    return {key: foreseen for alike in together.kinds for key in alike}


def _total(request: PodRequest) -> Mapping[str, int]:
    """What a kubelet's managers give the pod, wherever that is."""
    demand = Demand.of(request)
    return {demand.names[row]: amount for row, amount in demand.pod.amounts.items() if amount > 0}


def _numa_ids(view: View) -> Iterable[int]:
    return (numa_id for numa_id in view.snapshot.zone_ids[:, 0].tolist() if numa_id != NO_ZONE)


def _requests(pod: ResidentPod) -> Mapping[str, int]:
    return {**pod.requests, PODS: 1}
