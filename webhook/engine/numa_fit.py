"""Which nodes can take a pod on their NUMA nodes: the answer of either fidelity, for all nodes at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, Amounts, Bools, Bytes, Ids, Nodes, all_nodes

Masks = npt.NDArray[np.int64]
Allocation = tuple[tuple[int, Mapping[str, int]], ...]
"""What a pod takes of each NUMA node: (NUMA id, resource -> amount in engine units), ascending by id."""


class Wide:
    """Nodes that fit over at least two NUMA nodes. The exact ones are expensive, and few decisions need all of them."""

    def __init__(self, nodes: Nodes, widths: Callable[[], Bytes], masks: Callable[[Nodes], Masks]) -> None:
        """nodes: int [W] indexes, W > 0. masks: indexes into `nodes` -> their masks."""
        self.nodes = nodes
        self._widths = widths
        self._find = masks
        self._found = np.zeros(len(nodes), dtype=np.int64)

    @cached_property
    def at_least(self) -> Bytes:
        """uint8 [W]: a lower bound of the NUMA nodes used."""
        return self._widths()

    def masks(self, where: Nodes) -> Masks:
        """int64 [n]: the masks of some of the nodes (indexes into `nodes`), each computed once."""
        unknown = where[self._found[where] == 0]
        if len(unknown):
            self._found[unknown] = self._find(unknown)
        return self._found[where]


@dataclass(frozen=True, eq=False)
class NUMAFit:
    """One verdict per node. N nodes."""

    fits: Bools
    """bool [N]."""
    reason: Bytes
    """uint8 [N]: Reason of each node; FITS where it fits."""
    known: Masks
    """int64 [N]: `mask` without the `wide` nodes, which have 0 here."""
    split: Callable[[int], Allocation]
    wide: Wide | None = None
    _allocations: dict[int, Allocation] = field(default_factory=dict)

    @cached_property
    def mask(self) -> Masks:
        """int64 [N]: bit per position of a NUMA node that the pod would use; 0 = it is not bound to any."""
        return self.masks(all_nodes(len(self.known)))

    def masks(self, nodes: Nodes) -> Masks:
        """int64 [n]: `mask` of some nodes (indexes); only the `wide` ones are expensive."""
        masks: Masks = self.known.take(nodes)
        if self.wide is not None:
            positions = self._wide_positions.take(nodes)
            (late,) = (positions >= 0).nonzero()
            masks[late] = self.wide.masks(positions[late])
        return masks

    @cached_property
    def _wide_positions(self) -> Nodes:
        """Int [N]: the index of a node in `wide`; -1 = not in it."""
        positions = np.full(len(self.known), -1, dtype=np.intp)
        if self.wide is not None:
            positions[self.wide.nodes] = np.arange(len(self.wide.nodes))
        return positions

    def allocation(self, node: int) -> Allocation:
        """What the pod would take of each NUMA node of `node` (an index); empty if it is not bound to any.

        Computed on request, and once: a decision needs it for the few best nodes only.
        """
        if node not in self._allocations:
            self._allocations[node] = self.split(node)
        return self._allocations[node]

    def with_node(self, node: int, alone: "NUMAFit") -> "NUMAFit | None":
        """The same with another verdict on one node (an index). alone: that of the node by itself.

        None if there are `wide` nodes.
        """
        if self.wide is not None or alone.wide is not None:
            return None
        fits, reason, known = self.fits.copy(), self.reason.copy(), self.known.copy()
        fits[node], reason[node], known[node] = alone.fits[0], alone.reason[0], alone.known[0]
        allocations = self._allocations | ({node: alone.allocation(0)} if alone.fits[0] else {})
        return NUMAFit(fits, reason, known, self.split, None, allocations)


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
