"""Whether it is certain which NUMA nodes a kubelet will give a pod, where more or less may be free than is known.

1. The kubelet's choice is predicted with the most, and with the least, that may be free (see `leeway`). If both come to
   what is foreseen, so does all between: what fits, fits with more, and what does not, does not with less.
2. If not, the pod may be on any NUMA node that may have room for it. One above those foreseen is chosen only if these
   may be taken.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from webhook.cache.kubelet_admission import Arrival
from webhook.engine.arrays import NO_ZONE
from webhook.engine.kubelet import predict
from webhook.engine.numa_fit import Allocation
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.snapshot.single_node import is_free
from webhook.engine.snapshot.snapshot import View
from webhook.model.hint import NUMANodeAmounts
from webhook.model.intent import NUMAIntent
from webhook.model.pod import Pod
from webhook.model.resident import ResidentPod


@dataclass(frozen=True, slots=True)
class Foresight:
    """About the NUMA nodes that were foreseen for a pod."""

    sure: bool = True
    alternatives: frozenset[int] = frozenset()
    """The others that it may be given."""


CERTAIN: Final = Foresight()


RequestOn = Callable[[View], tuple[View, PodRequest]]
"""The request of a pod on a view, and the view with all that it asks for."""


def of_pod(pod: Pod, intent: NUMAIntent) -> RequestOn:
    """That of a pod that is to be bound."""

    def on(view: View) -> tuple[View, PodRequest]:
        view = view.covering(named_resources(pod))
        return view, PodRequest.of(pod, intent, view.snapshot.resources)

    return on


def of_resident(pod: ResidentPod) -> RequestOn:
    """That of one that was bound."""

    def on(view: View) -> tuple[View, PodRequest]:
        view = view.covering(pod.requests)
        return view, PodRequest.of_resident(pod, view.snapshot.resources)

    return on


def given_on(view: View, request_on: RequestOn) -> Allocation | None:
    """What the kubelet of a view's one node would give the pod; None: it would refuse it."""
    view, request = request_on(view)
    fit = predict(view, request)
    return fit.allocation(0) if fit.fits[0] else None


def foresight(arrival: Arrival, request_on: RequestOn, foreseen: NUMANodeAmounts, *, exact: bool = True) -> Foresight:
    """That of a pod whose kubelet chooses.

    exact: whether what is foreseen is the prediction itself, as it is by all but the plugin's rules.
    """
    others = arrival.other_views()
    if not foreseen or (exact and not others):
        return CERTAIN
    most, least = others or (arrival.kubelet_view(),) * 2
    given = [given_on(view, request_on) for view in (most, least)]
    same = [allocation is not None and dict(allocation) == dict(foreseen) for allocation in given]
    if all(same):
        return CERTAIN
    numa_ids = [numa_id for numa_id in most.snapshot.zone_ids[:, 0].tolist() if numa_id != NO_ZONE]
    taken = {numa_id for numa_id, _ in foreseen}
    if len(taken) == 1:
        (amounts,) = (amounts for _, amounts in foreseen)
        numa_ids = [numa_id for numa_id in numa_ids if is_free(most, ((numa_id, amounts),))]
        if same[1]:
            numa_ids = [numa_id for numa_id in numa_ids if numa_id < min(taken)]
    return Foresight(sure=False, alternatives=frozenset(numa_ids) - taken)
