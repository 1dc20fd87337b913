"""Resources that few nodes offer: stored by node, with a row only on demand.

1. A snapshot's arrays have a row for each resource that most nodes offer, within a fixed number of cells (row x NUMA
   node): a node that publishes 500 resources costs no more than that.
2. All others are stored here: resource -> node name -> amounts.
3. A decision on a pod that names one of them uses a snapshot with an additional row, created for that decision (see
   `extra_rows`).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class RareAmounts(NamedTuple):
    """One node's amounts of one resource. By position of a NUMA node; -1 = not listed. Engine units."""

    available: tuple[int, ...]
    capacity: tuple[int, ...]
    zone_allocatable: tuple[int, ...]
    allocatable: int
    """Of the node; -1 = the node does not name the resource."""
    requested: int


RareTable = Mapping[str, Mapping[str, RareAmounts]]
"""Resource -> node name -> amounts."""


class RareResources:
    """The table of one state of the cluster; a returned table never changes."""

    def __init__(self) -> None:
        self._table: dict[str, dict[str, RareAmounts]] = {}
        self._of: dict[str, frozenset[str]] = {}
        self._own: set[str] | None = set()
        """Resources whose part of the table was not returned yet; None = the table itself was."""

    def table(self) -> RareTable:
        """The current table."""
        self._own = None
        return self._table

    def nodes_with(self, resource: str) -> Iterable[str]:
        """The names of the nodes that have some of it."""
        return tuple(self._table.get(resource, ()))

    def write(self, node: str, amounts: Mapping[str, RareAmounts]) -> None:
        """Set the node's amounts of all resources without a row."""
        before = self._of.get(node, frozenset())
        if not before and not amounts:
            return
        for resource in before - amounts.keys():
            part = self._part(resource)
            del part[node]
            if not part:
                del self._table[resource]
        for resource, found in amounts.items():
            if self._table.get(resource, {}).get(node) != found:
                self._part(resource)[node] = found
        if amounts:
            self._of[node] = frozenset(amounts)
        else:
            del self._of[node]

    def _part(self, resource: str) -> dict[str, RareAmounts]:
        if self._own is None:
            self._table = dict(self._table)
            self._own = set()
        if resource not in self._own:
            self._own.add(resource)
            self._table[resource] = dict(self._table.get(resource, ()))
        return self._table[resource]
