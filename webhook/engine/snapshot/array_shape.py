"""The shape of the arrays: positions for the widest node's NUMA nodes, rows for the resources that most nodes offer.

Capacity for a deleted node is released late: one that comes and goes must not cause a copy each time.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.engine.snapshot.resource_rows import ResourceRows
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology

# The number of snapshots for which the capacity of the widest node is kept after its deletion.
_KEPT_WIDE: Final = 1024


class ArrayShape:
    """What nodes and NRTs need. cells: limit of rows times NUMA nodes."""

    def __init__(self, cells: int) -> None:
        self.z = 1
        """Positions for NUMA nodes."""
        self._rows = ResourceRows(cells)
        self._widths: Counter[int] = Counter()
        self._z_since = 0

    @property
    def resources(self) -> ResourceIndex:
        """The resource of each row."""
        return self._rows.index

    def node_changed(self, before: Node | None, after: Node | None) -> None:
        """Record a node. None: it did not exist before, or does not any more."""
        self._rows.offer(*(() if node is None else node.allocatable for node in (before, after)))

    def topology_changed(self, before: NodeTopology | None, after: NodeTopology | None) -> None:
        """Record an NRT that has changed in more than its free amounts."""
        old, new = (0 if topology is None else len(topology.zones) for topology in (before, after))
        self._rows.offer(resources_of(before), resources_of(after))
        self._widths[new] += 1
        self._widths[old] -= 1
        if not self._widths[old]:
            del self._widths[old]

    def fit(self, version: int) -> tuple[frozenset[str], frozenset[str]]:
        """Update the shape for the next arrays; returns the resources that gained a row and that lost one.

        version: the number of arrays so far.
        """
        widest = max(self._widths, default=1)
        if widest > self.z or (widest < self.z and version - self._z_since > _KEPT_WIDE):
            self.z = max(widest, 1)
            self._z_since = version
        return self._rows.settle(self.z)


def resources_of(topology: NodeTopology | None) -> Iterable[str]:
    """The resources that an NRT lists; none without an NRT."""
    return set() if topology is None else {name for zone in topology.zones for name in zone.resources}
