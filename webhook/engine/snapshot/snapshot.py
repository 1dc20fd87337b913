"""What is free at the moment of one decision: the cluster's arrays minus the ledger's reservations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Counts
from webhook.engine.snapshot.extra_rows import with_node_rows, with_rows
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.options import Unenforced
from webhook.model.resources import MAX_AMOUNT

if TYPE_CHECKING:
    from webhook.engine.snapshot.overlay import Overlay


class Snapshot:
    """Free amounts: the cluster's, minus the ledger's reservations. Read-only, and unchanged while held."""

    __slots__ = ("_ledger", "_source", "node_arrays", "residents")

    def __init__(
        self, node_arrays: NodeArrays, ledger: Ledger | None = None, residents: Sequence[ResidentPod] | None = None
    ) -> None:
        self.node_arrays = node_arrays
        self.residents = residents
        """For a snapshot of one node: its pods in the order of binding; None if unknown."""
        self._ledger = ledger
        overlay = None if ledger is None else ledger.overlay(node_arrays)
        self._source: NodeArrays | Overlay = node_arrays if overlay is None else overlay

    @property
    def version(self) -> tuple[int, int]:
        """Generation of the snapshot, version of the ledger (0: empty); two views of one cluster with it are equal."""
        return self.node_arrays.generation, 0 if isinstance(self._source, NodeArrays) else self._source.version

    def free(self, row: int) -> Amounts:
        """int64 [zone, node]: free in each NUMA node; -1 = it does not list the resource, otherwise never negative."""
        plane: Amounts = self._source.available[row]
        return plane

    def node_free(self, row: int) -> Amounts:
        """int64 [node]: allocatable minus requests and reservations; negative if over-committed."""
        amounts: Amounts = self._source.node_free[row]
        return amounts

    @property
    def single_residents(self) -> Counts:
        """int32 [zone, node]: pods with policy SingleNUMANode on the NUMA node, including assumed ones."""
        return self._source.single_residents

    @property
    def multi_residents(self) -> Counts:
        """int32 [zone, node]: pods over several NUMA nodes, including this one and assumed pods."""
        return self._source.multi_residents

    @property
    def ledger(self) -> Ledger | None:
        """The ledger whose reservations are subtracted."""
        return self._ledger

    def covering(self, names: Iterable[str]) -> "Snapshot":
        """The same snapshot with a row for each of these resources that a node offers; itself if it has them all."""
        node_arrays = with_rows(self.node_arrays, names)
        return self if node_arrays is self.node_arrays else _WithRows(self, node_arrays)

    def offering(self, amounts: Mapping[str, Amounts]) -> "Snapshot":
        """The same snapshot with resources that no other pod names. amounts: int64 [node] of each."""
        return _WithRows(self, with_node_rows(self.node_arrays, amounts))

    def without(self, closed: Bools) -> "Snapshot":
        """The same snapshot with nothing free in the closed NUMA nodes. closed: bool [zone, node]."""
        return _WithoutZones(self, closed)

    def with_plane(self, row: int, free: Amounts) -> "Snapshot":
        """The same snapshot with other free amounts of one resource. free: int64 [zone, node]."""
        return _WithPlane(self, row, free)

    def allowing(self, unenforced: Unenforced) -> "Snapshot":
        """The same snapshot with another rule for nodes that do not enforce a pod's policy."""
        return _WithRule(self, replace(self.node_arrays, unenforced=unenforced))

    def closed(self, nodes: Bools) -> "Snapshot":
        """The same snapshot with these nodes full, even for a pod without requests. nodes: bool [node]."""
        return _WithoutNodes(self, nodes)


class _WithRule(Snapshot):
    """A snapshot with other settings in its arrays."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot, node_arrays: NodeArrays) -> None:
        super().__init__(node_arrays, residents=snapshot.residents)
        self._snapshot = snapshot

    @property
    def version(self) -> tuple[int, int]:
        return self._snapshot.version

    @property
    def ledger(self) -> Ledger | None:
        return self._snapshot.ledger

    def free(self, row: int) -> Amounts:
        return self._snapshot.free(row)

    def node_free(self, row: int) -> Amounts:
        return self._snapshot.node_free(row)

    @property
    def single_residents(self) -> Counts:
        return self._snapshot.single_residents

    @property
    def multi_residents(self) -> Counts:
        return self._snapshot.multi_residents


class _WithRows(Snapshot):
    """A snapshot with more rows than its cluster's arrays: few nodes offer these resources, so reservations are few."""

    __slots__ = ("_available", "_first", "_node_free", "_snapshot")

    def __init__(self, snapshot: Snapshot, node_arrays: NodeArrays) -> None:
        super().__init__(node_arrays, residents=snapshot.residents)
        self._snapshot = snapshot
        self._first = len(snapshot.node_arrays.resources)
        self._available, self._node_free = node_arrays.available[self._first :], node_arrays.node_free[self._first :]
        if snapshot.ledger is not None:
            self._available, self._node_free = self._available.copy(), self._node_free.copy()
            for row, name in enumerate(node_arrays.resources.names[self._first :]):
                for node in node_arrays.rare.get(name, ()):
                    if node in node_arrays.index:
                        self._reserve(row, name, node_arrays.index[node], snapshot.ledger.sums(node))

    def _reserve(self, row: int, name: str, node: int, sums: NodeSums) -> None:
        """The same as webhook.engine.snapshot.overlay does for the other rows."""
        self._node_free[row, node] = max(int(self._node_free[row, node]) - sums.requests.get(name, 0), -MAX_AMOUNT)
        allocatable = self.node_arrays.zone_allocatable[self._first + row]
        for position, zone in enumerate(self.node_arrays.zone_ids[:, node].tolist()):
            free = int(self._available[row, position, node])
            if free >= 0:
                given_back = free + sums.ended.get(zone, {}).get(name, 0)
                free = min(given_back, max(int(allocatable[position, node]), free))
                self._available[row, position, node] = max(free - sums.numa.get(zone, {}).get(name, 0), 0)

    @property
    def version(self) -> tuple[int, int]:
        return self._snapshot.version

    @property
    def ledger(self) -> Ledger | None:
        return self._snapshot.ledger

    def free(self, row: int) -> Amounts:
        return self._snapshot.free(row) if row < self._first else self._available[row - self._first]

    def node_free(self, row: int) -> Amounts:
        return self._snapshot.node_free(row) if row < self._first else self._node_free[row - self._first]

    @property
    def single_residents(self) -> Counts:
        return self._snapshot.single_residents

    @property
    def multi_residents(self) -> Counts:
        return self._snapshot.multi_residents


class _WithoutZones(Snapshot):
    """A snapshot with nothing free on some NUMA nodes."""

    __slots__ = ("_closed", "_snapshot")

    def __init__(self, snapshot: Snapshot, closed: Bools) -> None:
        super().__init__(snapshot.node_arrays)
        self._snapshot = snapshot
        self._closed = closed

    @property
    def ledger(self) -> Ledger | None:
        return self._snapshot.ledger

    def free(self, row: int) -> Amounts:
        plane = self._snapshot.free(row)
        return np.where(self._closed, np.minimum(plane, 0), plane)

    def node_free(self, row: int) -> Amounts:
        return self._snapshot.node_free(row)

    @property
    def single_residents(self) -> Counts:
        return self._snapshot.single_residents

    @property
    def multi_residents(self) -> Counts:
        return self._snapshot.multi_residents


class _WithPlane(Snapshot):
    """A snapshot in which NUMA nodes have other free amounts of one resource."""

    __slots__ = ("_free", "_row", "_snapshot")

    def __init__(self, snapshot: Snapshot, row: int, free: Amounts) -> None:
        super().__init__(snapshot.node_arrays, residents=snapshot.residents)
        self._snapshot = snapshot
        self._row, self._free = row, free

    @property
    def version(self) -> tuple[int, int]:
        return self._snapshot.version

    @property
    def ledger(self) -> Ledger | None:
        return self._snapshot.ledger

    def free(self, row: int) -> Amounts:
        return self._free if row == self._row else self._snapshot.free(row)

    def node_free(self, row: int) -> Amounts:
        return self._snapshot.node_free(row)

    @property
    def single_residents(self) -> Counts:
        return self._snapshot.single_residents

    @property
    def multi_residents(self) -> Counts:
        return self._snapshot.multi_residents


class _WithoutNodes(_WithoutZones):
    """A snapshot with some full nodes; closed: bool [node], including all their NUMA nodes."""

    __slots__ = ()

    def node_free(self, row: int) -> Amounts:
        amounts = self._snapshot.node_free(row)
        return np.where(self._closed, np.minimum(amounts, 0), amounts)
