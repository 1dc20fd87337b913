"""What enforces the NUMA policy that a pod asks for: the node's kubelet, koordlet, or nothing.

Only policies that a node could break by running the pod count: Restricted and SingleNUMANode.
1. A kubelet whose Topology Manager has a policy enforces it for what its managers align of the pod.
2. Koordlet obeys our `resource-status`: it keeps the pod's CPUs on these NUMA nodes, but neither memory nor devices.
3. A kubelet with policy none enforces nothing, and may spread the pod over NUMA nodes.

Koordinator's matrix allows such nodes. The setting `unenforced` says whether they come last, or not at all.
"""

from typing import Final

import numpy as np

from webhook.engine.arrays import Bools, every
from webhook.engine.request import PodRequest
from webhook.engine.snapshot import node_kind
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import CPU, MEMORY, is_device, is_hugepages

_UNKNOWN: Final = node_kind.NO_TOPOLOGY | node_kind.UNKNOWN_POLICY


def _enforces_nothing(kind: int) -> bool:
    return not kind & (_UNKNOWN | node_kind.TOTAL) and kind & node_kind.POLICY == NUMAPolicy.NONE


_WITHOUT_POLICY: Final = np.array([_enforces_nothing(kind) for kind in range(node_kind.KINDS)])
"""bool [kind of node]: the kubelet has the policy none, and no koordlet obeys a hint."""
_BY_KUBELETS: Final = np.array(
    [not kind & (_UNKNOWN | node_kind.TOTAL) and bool(kind & node_kind.POLICY) for kind in range(node_kind.KINDS)]
)
"""bool [kind of node]: the kubelet has another policy."""


def unenforced(node_arrays: NodeArrays, request: PodRequest) -> Bools | None:
    """Where nothing enforces the pod's policy, bool [node]; None: nowhere, or it has no such policy."""
    if not request.strict or not node_arrays.n:
        return None
    kinds = node_arrays.kind
    found: Bools = _WITHOUT_POLICY.take(kinds)
    listed = [node_arrays.listed[row] for row in _aligned_rows(request)]
    if not any(map(every, listed)):
        found |= _BY_KUBELETS.take(kinds) & ~np.logical_or.reduce(listed or [found])
    return found if np.count_nonzero(found) else None


def obey_no_allocation(node_arrays: NodeArrays) -> Bools:
    """Where pods may get CPUs, memory and devices of any NUMA nodes, whatever their hints say: bool [node]."""
    found: Bools = _WITHOUT_POLICY.take(node_arrays.kind)
    return found


def obeys_no_allocation(node_arrays: NodeArrays, node: int) -> bool:
    """The same of one node (an index)."""
    return bool(_WITHOUT_POLICY[node_arrays.kind[node]])


def not_enforced(node_arrays: NodeArrays, request: PodRequest, node: int) -> str:
    """What a node (an index) does not enforce of the pod's policy, as a clause; empty: nothing that is known."""
    kind = int(node_arrays.kind[node])
    if not request.strict or kind & _UNKNOWN:
        return ""
    if _WITHOUT_POLICY[kind]:
        return "not enforced there: policy none"
    if kind & node_kind.TOTAL:
        others = [name for name in _aligned(request) if name != CPU]
        return f"koordlet enforces cpu there, not {', '.join(others)}" if others else ""
    rows = _aligned_rows(request)
    if rows and not node_arrays.listed[rows, node].any():
        return f"not enforced there: no manager of its kubelet aligns {', '.join(_aligned(request))}"
    return ""


def _aligned_rows(request: PodRequest) -> list[int]:
    aligned = set(_aligned(request))
    return [row for name, row in zip(request.resources, request.rows, strict=True) if row >= 0 and name in aligned]


def _aligned(request: PodRequest) -> list[str]:
    """The requested resources that NUMA nodes have."""
    return [
        name
        for name, amount in zip(request.resources, request.node, strict=True)
        if amount > 0 and (name in {CPU, MEMORY} or is_hugepages(name) or is_device(name))
    ]
