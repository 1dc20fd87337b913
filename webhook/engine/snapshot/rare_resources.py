"""Resources that few nodes offer: stored by node, with a row only on demand.

1. A snapshot's arrays have a row for each resource that most nodes offer, within a fixed number of cells (row x NUMA
   node): a node that publishes 500 resources costs no more than that.
2. All others are stored here: resource -> node name -> amounts.
3. A decision on a pod that names one of them uses a snapshot with an additional row, created for that decision (see
   `extra_rows`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.model.resources import CPU, MEMORY, PODS

MAX_CELLS: Final = 256
"""32 resources on nodes of 8 NUMA nodes: Kubernetes defines about eight, machines have a few kinds of devices."""

_ALWAYS: Final = (CPU, MEMORY, PODS)
# A resource without a row replaces another only if this many times as many nodes offer it: rows must not change with
# every node that comes and goes.
_CLEARLY_MORE: Final = 2


class ResourceRows:
    """Which resources have a row in the arrays: those that most nodes offer, within a limit.

    A cell is one row of one NUMA node's position. At 5,000 nodes one takes 120 KB in each of at most three buffers
    (three amounts of 8 bytes each), so the arrays take at most 90 MiB, whatever is published.

    It has the index of rows, and how many objects (nodes and their NRTs) offer each resource.
    """

    def __init__(self, cells: int = MAX_CELLS) -> None:
        self.index = ResourceIndex(_ALWAYS)
        self._cells = cells
        self._offers: Counter[str] = Counter()
        self._candidates: set[str] = set()
        self._z = 1

    def offer(self, before: Iterable[str], after: Iterable[str]) -> None:
        """One object now names other resources than before."""
        before, after = set(before), set(after)
        for name in before - after:
            self._offers[name] -= 1
            if not self._offers[name]:
                del self._offers[name]
        for name in after - before:
            self._offers[name] += 1
            if name not in self.index:
                self._candidates.add(name)

    def settle(self, z: int) -> tuple[frozenset[str], frozenset[str]]:
        """Update the index for arrays of z positions; returns the resources that gained a row and that lost one."""
        if z == self._z and not self._candidates:
            return _NONE, _NONE
        self._z = z
        new = sorted(name for name in self._candidates if self._offers[name])
        self._candidates.clear()
        present = self.index.names
        most = max(self._cells // z, len(_ALWAYS))
        if len(present) + len(new) <= most:
            kept = {*present, *new}
        else:
            others = [name for name in present if name not in _ALWAYS]
            weight = {name: self._offers[name] for name in new}
            weight |= {name: self._offers[name] * _CLEARLY_MORE for name in others}
            ranked = sorted((*others, *new), key=lambda name: (-weight[name], name))
            kept = {*_ALWAYS, *ranked[: most - len(_ALWAYS)]}
        gained, lost = frozenset(kept.difference(present)), frozenset(set(present) - kept)
        if gained or lost:
            left = [name for name in present if name in kept]
            self.index = ResourceIndex((*left, *(name for name in new if name in gained)))
        return gained, lost


_NONE: Final[frozenset[str]] = frozenset()


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
