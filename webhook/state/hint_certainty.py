"""Whether the NUMA nodes that a kubelet will give a pod are certain, if more or less may be free than is known.

1. The kubelet's choice is predicted twice: with the most and with the least that may be free. If both equal the
   replayed result, so does every amount between: a pod that fits also fits with more, and one that does not fit does
   not fit with less.
2. Otherwise the pod may be on any NUMA node that may have capacity for it. A NUMA node above the replayed ones is
   possible only if the replayed ones may be taken.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from webhook.engine.arrays import NO_ZONE
from webhook.engine.kubelet import predict
from webhook.engine.numa_fit import Allocation
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.snapshot.single_node import is_free
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.hint import NUMANodeAmounts
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.state.kubelet_admission import KubeletAdmission


@dataclass(frozen=True, slots=True)
class HintCertainty:
    """How certain the replayed NUMA nodes of a pod are."""

    sure: bool = True
    alternatives: frozenset[int] = frozenset()
    """Other NUMA nodes that the pod may get."""


CERTAIN: Final = HintCertainty()


RequestOn = Callable[[Snapshot], tuple[Snapshot, PodRequest]]
"""Takes a snapshot; returns it extended to all resources that the pod requests, and the pod's request on it."""


def of_pod(pod: Pod, intent: NUMAIntent) -> RequestOn:
    """The request of a pod before it is bound."""

    def on(snapshot: Snapshot) -> tuple[Snapshot, PodRequest]:
        snapshot = snapshot.covering(named_resources(pod))
        return snapshot, PodRequest.of(pod, intent, snapshot.node_arrays.resources)

    return on


def of_resident(pod: ResidentPod) -> RequestOn:
    """The request of a bound pod."""

    def on(snapshot: Snapshot) -> tuple[Snapshot, PodRequest]:
        snapshot = snapshot.covering(pod.requests)
        return snapshot, PodRequest.of_resident(pod, snapshot.node_arrays.resources)

    return on


def given_on(snapshot: Snapshot, request_on: RequestOn) -> Allocation | None:
    """What the kubelet of the snapshot's only node would give the pod; None if it would reject the pod."""
    snapshot, request = request_on(snapshot)
    fit = predict(snapshot, request)
    return fit.allocation(0) if fit.fits[0] else None


def hint_certainty(
    kubelet_admission: KubeletAdmission, request_on: RequestOn, replayed: NUMANodeAmounts, *, exact: bool = True
) -> HintCertainty:
    """The certainty for a pod whose kubelet chooses the NUMA nodes.

    exact: whether `replayed` is the prediction itself, as it is under all rules but the plugin's.
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
