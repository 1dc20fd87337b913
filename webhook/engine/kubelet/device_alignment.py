"""What kubelets align for a pod without exclusive CPUs: its devices, if their NUMA nodes are known.

The Topology Manager merges the hints of the CPU, memory and device managers. Without any hint it admits the pod,
whatever its policy.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.koordinator import ours_to_place
from webhook.engine.request import PodRequest
from webhook.engine.snapshot import node_kind
from webhook.engine.snapshot.node_arrays import NodeArrays
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
