"""Which nodes can take a pod on their NUMA nodes: the answer of either fidelity, for all nodes at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, Amounts, Bools, Bytes, Ids

Allocation = tuple[tuple[int, Mapping[str, int]], ...]
"""What a pod takes of each NUMA node: (NUMA id, resource -> amount in engine units), ascending by id."""


@dataclass(frozen=True, slots=True, eq=False)
class NUMAFit:
    """One verdict per node. N nodes."""

    fits: Bools
    """bool [N]."""
    reason: Bytes
    """uint8 [N]: Reason of each node; FITS where it fits."""
    mask: npt.NDArray[np.int64]
    """int64 [N]: bit per position of a NUMA node that the pod would use; 0 = it is not bound to any."""
    split: Callable[[int], Allocation]

    def allocation(self, node: int) -> Allocation:
        """What the pod would take of each NUMA node of `node` (an index); empty if it is not bound to any.

        Worked out when asked for: a decision needs it for the few best nodes only.
        """
        return self.split(node)


def by_numa_id(ids: Ids, taken: Mapping[str, Amounts]) -> Allocation:
    """The amounts taken on one node, by NUMA id; zeros are left out.

    ids: int16 [Z], -1 = no such position; taken: resource -> int64 [z], z at most Z.
    """
    allocation = []
    for position, numa_id in enumerate(ids.tolist()):
        if numa_id == NO_ZONE:
            break
        amounts = {name: amount for name, by_zone in taken.items() if (amount := int(by_zone[position])) > 0}
        if amounts:
            allocation.append((numa_id, amounts))
    return tuple(allocation)
