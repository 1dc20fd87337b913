"""Whether some kubelet would align a pod to NUMA nodes, if the pod ran there.

1. What its managers would give the pod of particular NUMA nodes (webhook.engine.kubelet.demand).
2. Nodes whose Topology Manager has a policy, or an unknown one, and where some NUMA node lists such a resource: usually
   cpu; memory and huge pages with a memory manager; devices that are near NUMA nodes.
3. Only nodes that the pod's own selectors and tolerations allow. Nodes that are full, cordoned or not ready count,
   because they may take it later.

For a pod without exclusive CPUs, these are its devices whose NUMA nodes are known. The Topology Manager merges the
hints of the CPU, memory and device managers; without any hint it admits the pod, whatever its policy.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.filter.node_fit import eligible
from webhook.engine.koordinator import ours_to_place
from webhook.engine.kubelet.demand import Demand
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.snapshot import node_kind
from webhook.engine.snapshot.extra_rows import with_rows
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.formats.koordinator.intent import NO_INTENT
from webhook.formats.kubernetes.pod import Pod
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import is_device

_UNKNOWN: Final = node_kind.NO_TOPOLOGY | node_kind.UNKNOWN_POLICY


def numa_assigned_by_kubelets(node_arrays: NodeArrays) -> Bools:
    """Bool [node]: NUMA nodes and policy are known, and the kubelet chooses among them."""
    return _known(node_arrays) & ~ours_to_place(node_arrays)


def numa_assigned_by_us(node_arrays: NodeArrays) -> Bools:
    """Bool [node]: NUMA nodes and policy are known, and the pod's hint says which are its own."""
    return _known(node_arrays) & ours_to_place(node_arrays)


def aligned_devices(node_arrays: NodeArrays, request: PodRequest) -> Iterator[tuple[str, Bools]]:
    """Each requested device, and bool [node]: where it is near particular NUMA nodes."""
    for name, row, amount in zip(request.resources, request.rows, request.node, strict=True):
        if amount > 0 and is_device(name):
            yield name, node_arrays.listed[row] if row >= 0 else np.zeros(node_arrays.n, dtype=np.bool_)


def _known(node_arrays: NodeArrays) -> Bools:
    known: Bools = (node_arrays.kind & _UNKNOWN) == 0
    return known


def is_aligned_somewhere(node_arrays: NodeArrays, pod: Pod) -> bool:
    """Whether there is a node with a policy whose kubelet would align something of the pod."""
    node_arrays = with_rows(node_arrays, named_resources(pod))
    demand = Demand.of(PodRequest.of(pod, NO_INTENT, node_arrays.resources))
    rows = sorted({row for share in demand.containers for row, amount in share.amounts.items() if amount > 0})
    if not rows:
        return False
    has_policy = (node_arrays.policy != NUMAPolicy.NONE) | (node_arrays.kind & node_kind.UNKNOWN_POLICY != 0)
    aligning = has_policy & node_arrays.listed[rows].any(axis=0)
    return bool(aligning.any()) and bool(np.any(aligning & eligible(node_arrays, pod)))
