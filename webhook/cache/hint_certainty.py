"""Whether it is certain which NUMA nodes a kubelet will give a pod, where more or less may be free than is known.

1. The kubelet's choice is predicted with the most, and with the least, that may be free. If both come to
   what is replayed, so does all between: what fits, fits with more, and what does not, does not with less.
2. If not, the pod may be on any NUMA node that may have room for it. One above those replayed is chosen only if these
   may be taken.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from webhook.cache.kubelet_admission import KubeletAdmission
from webhook.engine.arrays import NO_ZONE
from webhook.engine.kubelet import predict
from webhook.engine.numa_fit import Allocation
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.snapshot.single_node import is_free
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.hint import NUMANodeAmounts
from webhook.model.intent import NUMAIntent
from webhook.model.pod import Pod
from webhook.model.resident import ResidentPod


@dataclass(frozen=True, slots=True)
class HintCertainty:
    """About the NUMA nodes that were replayed for a pod."""

    sure: bool = True
    alternatives: frozenset[int] = frozenset()
    """The others that it may be given."""


CERTAIN: Final = HintCertainty()


RequestOn = Callable[[Snapshot], tuple[Snapshot, PodRequest]]
"""The request of a pod on a view, and the view with all that it asks for."""


def of_pod(pod: Pod, intent: NUMAIntent) -> RequestOn:
    """That of a pod that is to be bound."""

    def on(snapshot: Snapshot) -> tuple[Snapshot, PodRequest]:
        snapshot = snapshot.covering(named_resources(pod))
        return snapshot, PodRequest.of(pod, intent, snapshot.node_arrays.resources)

    return on


def of_resident(pod: ResidentPod) -> RequestOn:
    """That of one that was bound."""

    def on(snapshot: Snapshot) -> tuple[Snapshot, PodRequest]:
        snapshot = snapshot.covering(pod.requests)
        return snapshot, PodRequest.of_resident(pod, snapshot.node_arrays.resources)

    return on


def given_on(snapshot: Snapshot, request_on: RequestOn) -> Allocation | None:
    """What the kubelet of a view's one node would give the pod; None: it would refuse it."""
    snapshot, request = request_on(snapshot)
    fit = predict(snapshot, request)
    return fit.allocation(0) if fit.fits[0] else None


def hint_certainty(
    kubelet_admission: KubeletAdmission, request_on: RequestOn, replayed: NUMANodeAmounts, *, exact: bool = True
) -> HintCertainty:
    """That of a pod whose kubelet chooses.

    exact: whether what is replayed is the prediction itself, as it is by all but the plugin's rules.
    """
    others = kubelet_admission.other_views()
    if not replayed or (exact and not others):
        return CERTAIN
    most, least = others or (kubelet_admission.kubelet_snapshot(),) * 2
    given = [given_on(snapshot, request_on) for snapshot in (most, least)]
    same = [allocation is not None and dict(allocation) == dict(replayed) for allocation in given]
    if all(same):
        return CERTAIN
    numa_ids = [numa_id for numa_id in most.node_arrays.zone_ids[:, 0].tolist() if numa_id != NO_ZONE]
    taken = {numa_id for numa_id, _ in replayed}
    if len(taken) == 1:
        (amounts,) = (amounts for _, amounts in replayed)
        numa_ids = [numa_id for numa_id in numa_ids if is_free(most, ((numa_id, amounts),))]
        if same[1]:
            numa_ids = [numa_id for numa_id in numa_ids if numa_id < min(taken)]
    return HintCertainty(sure=False, alternatives=frozenset(numa_ids) - taken)
