"""What kubelets align of a pod that gets no CPUs of its own: its devices, where it is known what they are near.

The topology manager merges the hints of the CPU, memory and device managers. Where none of them gives one it admits the
pod as it comes, whatever its policy.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.koordinator import ours_to_place
from webhook.engine.request import PodRequest
from webhook.engine.snapshot import node_kind
from webhook.engine.snapshot.node_arrays import Snapshot
from webhook.model.resources import is_device

_UNKNOWN: Final = node_kind.NO_TOPOLOGY | node_kind.UNKNOWN_POLICY


def placed_by_kubelets(snapshot: Snapshot) -> Bools:
    """Bool [node]: NUMA nodes and policy are known, and the kubelet chooses among them."""
    return _known(snapshot) & ~ours_to_place(snapshot)


def placed_by_us(snapshot: Snapshot) -> Bools:
    """Bool [node]: NUMA nodes and policy are known, and the pod's hint says which are its own."""
    return _known(snapshot) & ours_to_place(snapshot)


def aligned_devices(snapshot: Snapshot, request: PodRequest) -> Iterator[tuple[str, Bools]]:
    """Each device that the pod asks for, and bool [node]: where it is near particular NUMA nodes."""
    for name, row, amount in zip(request.resources, request.rows, request.node, strict=True):
        if amount > 0 and is_device(name):
            yield name, snapshot.listed[row] if row >= 0 else np.zeros(snapshot.n, dtype=np.bool_)


def _known(snapshot: Snapshot) -> Bools:
    known: Bools = (snapshot.kind & _UNKNOWN) == 0
    return known
