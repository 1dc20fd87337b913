"""The order of equal nodes of which no NUMA node lists CPUs, such as those of kubelets with default settings.

However full such a node is, its score is the same. If its CPUs were used up before those of the next node, devices that
are idle there could not be used any more. So what a pod leaves to each idle device decides.
"""

from typing import Final

import numpy as np

from webhook.engine.arrays import Amounts, every
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.resources import CPU, is_device

LEFT_BITS: Final = 31
_MOST: Final = 2**LEFT_BITS - 1
"""More millicores than any node has."""


def cpus_left_to_idle_devices(snapshot: Snapshot, request: PodRequest) -> Amounts | None:
    """int64 [node], 0 to 2^LEFT_BITS - 1: millicores that the pod leaves to each idle device that it does not request.

    Of several kinds of devices, the least. The most where none is idle or NUMA nodes list CPUs; None: everywhere.
    """
    node_arrays = snapshot.node_arrays
    cpu = node_arrays.resources.find(CPU)
    if cpu < 0 or every(node_arrays.listed[cpu]):
        return None
    unlisted = ~node_arrays.listed[cpu]
    amounts = dict(zip(request.resources, request.node, strict=True))
    left: Amounts | None = None
    for row, name in enumerate(node_arrays.resources):
        if not is_device(name) or amounts.get(name, 0) > 0:
            continue
        idle = snapshot.node_free(row)
        here = unlisted & (idle > 0)
        if np.count_nonzero(here):
            room = np.maximum(snapshot.node_free(cpu) - max(amounts.get(CPU, 0), 0), 0)
            left = np.full(node_arrays.n, _MOST, dtype=np.int64) if left is None else left
            np.minimum(left, room // np.maximum(idle, 1), out=left, where=here)
    return left
