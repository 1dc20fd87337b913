"""Which nodes can take a pod on their NUMA nodes: the answer of either fidelity, for all nodes at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, Amounts, Bools, Bytes, Ids, Nodes

Masks = npt.NDArray[np.int64]
Allocation = tuple[tuple[int, Mapping[str, int]], ...]
"""What a pod takes of each NUMA node: (NUMA id, resource -> amount in engine units), ascending by id."""


@dataclass(frozen=True, eq=False)
class Wide:
    """Nodes that fit, over at least two NUMA nodes. Which ones takes long to find, and few decisions need it."""

    nodes: Nodes
    """int [W] indexes, W > 0."""
    masks_of: Callable[[], Masks]
    """int64 [W]: their masks."""


@dataclass(frozen=True, eq=False)
class NUMAFit:
    """One verdict per node. N nodes."""

    fits: Bools
    """bool [N]."""
    reason: Bytes
    """uint8 [N]: Reason of each node; FITS where it fits."""
    known: Masks
    """int64 [N]: `mask` as far as it is known yet; of `wide` nodes it is 0."""
    split: Callable[[int], Allocation]
    wide: Wide | None = None

    @cached_property
    def mask(self) -> Masks:
        """int64 [N]: bit per position of a NUMA node that the pod would use; 0 = it is not bound to any."""
        if self.wide is None:
            return self.known
        mask = self.known.copy()
        mask[self.wide.nodes] = self.wide.masks_of()
        return mask

    def masks(self, nodes: Nodes) -> Masks:
        """int64 [n]: `mask` of some nodes (indexes); `wide` ones are left alone as long as none is among them."""
        if self.wide is None or not np.isin(nodes, self.wide.nodes).any():
            return self.known.take(nodes)
        return self.mask[nodes]

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
