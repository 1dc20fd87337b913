"""A snapshot's arrays after subtracting the ledger's reservations; updated instead of recreated.

1. The first overlay copies the four arrays that reservations affect.
2. The next one only rewrites nodes that changed since, in the snapshot or in the ledger.
3. A returned overlay never changes. While it is in use, the next one is written into the arrays of an older one that is
   not. If there are none, the arrays are copied.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from webhook.engine.arrays import NO_ZONE, Amounts, Counts, read_only
from webhook.engine.snapshot.node_arrays import ChangeLog, NodeArrays
from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts
from webhook.model.resources import MAX_AMOUNT

Item = TypeVar("Item", bound=np.generic)

# A snapshot may grow by a few nodes between two overlays; beyond this share everything is copied again.
_SLACK = 8

# A decision may keep one overlay while it waits for an answer, and another decision a second one.
_KEPT = 3


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Overlay:
    """A snapshot's free amounts minus the reservations. Shapes and units as in NodeArrays."""

    node_arrays: NodeArrays
    version: int
    available: Amounts
    node_free: Amounts
    single_residents: Counts
    multi_residents: Counts


class OverlayCache:
    """Creates overlays of one ledger's sums."""

    def __init__(self, sums: Mapping[str, NodeSums], log: ChangeLog[str]) -> None:
        self._sums = sums
        self._log = log
        self._kept: list[_Arrays] = []
        """The arrays of the last overlays, the latest first."""

    def over(self, node_arrays: NodeArrays) -> Overlay:
        """The current overlay of the ledger on the snapshot."""
        last = self._kept[0].overlay() if self._kept else None
        if last is not None and last.node_arrays is node_arrays and last.version == self._log.version:
            return last
        arrays, stale = self._unused(node_arrays)
        for n in stale:
            sums = self._sums.get(node_arrays.names[n])
            if sums is not None:
                arrays.subtract(node_arrays, n, sums)
        self._kept = [arrays, *(each for each in self._kept if each is not arrays)][:_KEPT]
        return arrays.window(node_arrays)

    def _unused(self, node_arrays: NodeArrays) -> tuple["_Arrays", set[int]]:
        """Arrays that no overlay in use shows, and the nodes whose reservations are not subtracted in them."""
        for each in self._kept:
            if each.overlay() is None and (stale := each.stale(node_arrays, self._log)) is not None:
                each.restore(node_arrays, stale, self._log.version)
                return each, stale
        latest = self._kept[0] if self._kept else None
        if latest is not None and (stale := latest.stale(node_arrays, self._log)) is not None:
            arrays = latest.copy()
            arrays.restore(node_arrays, stale, self._log.version)
            return arrays, stale
        self._kept = []
        reserved = {node_arrays.index[name] for name in self._sums if name in node_arrays.index}
        return _Arrays(node_arrays, self._log.version), reserved


class _Arrays:
    """The arrays behind overlays, with spare capacity for nodes, and the versions that they include."""

    __slots__ = ("_shown", "available", "generation", "log", "multi", "node_free", "single", "version")

    def __init__(self, node_arrays: NodeArrays, version: int) -> None:
        capacity = node_arrays.n + node_arrays.n // _SLACK + _SLACK
        self.available = _widened(node_arrays.available, capacity)
        self.node_free = _widened(node_arrays.node_free, capacity)
        self.single = _widened(node_arrays.single_residents, capacity)
        self.multi = _widened(node_arrays.multi_residents, capacity)
        self.log = node_arrays.changes
        self.generation = node_arrays.generation
        self.version = version
        self._shown: ref[Overlay] | None = None

    def overlay(self) -> Overlay | None:
        """The last overlay on these arrays; None if it is not in use any more."""
        return None if self._shown is None else self._shown()

    def copy(self) -> "_Arrays":
        """The same content in other arrays."""
        twin = copy(self)
        for name in ("available", "node_free", "single", "multi"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def stale(self, node_arrays: NodeArrays, log: ChangeLog[str]) -> set[int] | None:
        """The nodes to rewrite; None if all must be."""
        if node_arrays.changes is not self.log or node_arrays.generation < self.generation:
            return None
        if self.available.shape[:2] != node_arrays.available.shape[:2] or self.available.shape[2] < node_arrays.n:
            return None
        columns = node_arrays.changes.since(self.generation)
        names = log.since(self.version)
        if columns is None or names is None:
            return None
        columns.update(node_arrays.index[name] for name in names if name in node_arrays.index)
        return {n for n in columns if n < node_arrays.n}

    def restore(self, node_arrays: NodeArrays, columns: set[int], version: int) -> None:
        """Reset the nodes to the snapshot's values, without any reservation."""
        at = list(columns)
        self.available[:, :, at] = node_arrays.available[:, :, at]
        self.node_free[:, at] = node_arrays.node_free[:, at]
        self.single[:, at] = node_arrays.single_residents[:, at]
        self.multi[:, at] = node_arrays.multi_residents[:, at]
        self.generation = node_arrays.generation
        self.version = version

    def subtract(self, node_arrays: NodeArrays, n: int, sums: NodeSums) -> None:
        """Add what ended pods held, up to what is allocatable; then subtract the reservations of one node.

        Amounts never fall below zero: what its zones do not have is ignored.
        """
        rows = len(self.available)
        position = {zone: z for z, zone in enumerate(node_arrays.zone_ids[:, n].tolist()) if zone != NO_ZONE}
        for row, z, amount in _cells(node_arrays, position, sums.ended):
            if (free := int(self.available[row, z, n])) >= 0:
                self.available[row, z, n] = min(free + amount, max(int(node_arrays.zone_allocatable[row, z, n]), free))
        for row, z, amount in _cells(node_arrays, position, sums.numa):
            if (free := int(self.available[row, z, n])) > 0:
                self.available[row, z, n] = max(free - amount, 0)
        for resource, amount in sums.requests.items():
            row = node_arrays.resources.find(resource)
            if 0 <= row < rows:
                self.node_free[row, n] = max(int(self.node_free[row, n]) - amount, -MAX_AMOUNT)
        for counts, array in ((sums.single, self.single), (sums.multi, self.multi)):
            for zone, pods in counts.items():
                if zone in position:
                    array[position[zone], n] += pods

    def window(self, node_arrays: NodeArrays) -> Overlay:
        """The arrays as an overlay of the snapshot: its nodes only, read-only."""
        overlay = Overlay(
            node_arrays,
            self.version,
            read_only(self.available[:, :, : node_arrays.n]),
            read_only(self.node_free[:, : node_arrays.n]),
            read_only(self.single[:, : node_arrays.n]),
            read_only(self.multi[:, : node_arrays.n]),
        )
        self._shown = ref(overlay)
        return overlay


def _cells(node_arrays: NodeArrays, position: Mapping[int, int], numa: NumaAmounts) -> Iterator[tuple[int, int, int]]:
    """(row, position of the NUMA node, amount) for amounts that the snapshot's arrays have a cell for."""
    for zone, amounts in numa.items():
        if zone in position:
            for resource, amount in amounts.items():
                row = node_arrays.resources.find(resource)
                if 0 <= row < len(node_arrays.available):
                    yield row, position[zone], amount


def _widened(array: NDArray[Item], capacity: int) -> NDArray[Item]:
    """A copy with capacity for `capacity` nodes; the additional part is zero."""
    wide = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
    wide[..., : array.shape[-1]] = array
    return wide
