"""The reference for the engine's shortcuts: a verdict from all sets of a node's NUMA nodes."""

import numpy as np

from webhook.engine import kubelet
from webhook.engine.kubelet.all_sets import AllSets
from webhook.engine.kubelet.policy_groups import policy_groups
from webhook.engine.numa_fit import Allocation
from webhook.engine.reason import REASONS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot


def whole_way(snapshot: Snapshot, request: PodRequest, node: int) -> tuple[Reason, int]:
    """The kubelet's verdict on one node (an index) without any shortcut, and the mask of NUMA nodes."""
    (part,) = policy_groups(snapshot, request, np.array([node]))
    if part.verdict is not None or part.ours:
        fit = kubelet.predict(snapshot, request)
        return REASONS[fit.reason[node]], int(fit.mask[node])
    reason, mask = AllSets(snapshot, request).admit(part)
    return REASONS[reason[0]], int(mask[0])


def whole_split(snapshot: Snapshot, request: PodRequest, node: int) -> Allocation:
    """What a full admission takes of each NUMA node of one node (an index)."""
    (part,) = policy_groups(snapshot, request, np.array([node]))
    return kubelet.predict(snapshot, request).allocation(node) if part.ours else AllSets(snapshot, request).split(part)
