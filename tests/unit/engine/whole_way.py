"""What shorter ways are compared with: the verdict on one node by all sets of its NUMA nodes."""

import numpy as np

from webhook.engine import kubelet
from webhook.engine.kubelet.all_sets import AllSets
from webhook.engine.kubelet.policy_groups import policy_groups
from webhook.engine.numa_fit import Allocation
from webhook.engine.reason import REASONS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot


def whole_way(snapshot: Snapshot, request: PodRequest, node: int) -> tuple[Reason, int]:
    """The verdict of one node's kubelet (an index) without any short way, and the mask of NUMA nodes."""
    (part,) = policy_groups(snapshot, request, np.array([node]))
    if part.verdict is not None or part.ours:
        fit = kubelet.predict(snapshot, request)
        return REASONS[fit.reason[node]], int(fit.mask[node])
    reason, mask = AllSets(snapshot, request).admit(part)
    return REASONS[reason[0]], int(mask[0])


def whole_split(snapshot: Snapshot, request: PodRequest, node: int) -> Allocation:
    """What the pod would take of each NUMA node of one node (an index), by the admission itself."""
    (part,) = policy_groups(snapshot, request, np.array([node]))
    return kubelet.predict(snapshot, request).allocation(node) if part.ours else AllSets(snapshot, request).split(part)
