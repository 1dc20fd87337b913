"""What is free at the moment of one decision: a snapshot with the ledger's reservations laid over it."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Counts
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.node_arrays import Snapshot
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.rare_resources import with_rows
from webhook.model.resident import ResidentPod
from webhook.model.resources import MAX_AMOUNT

if TYPE_CHECKING:
    from webhook.engine.snapshot.overlay import Overlay


class View:
    """Free amounts: the snapshot's, minus what the ledger reserves. Read-only, and stays as it is while held."""

    __slots__ = ("_ledger", "_source", "residents", "snapshot")

    def __init__(
        self, snapshot: Snapshot, ledger: Ledger | None = None, residents: Sequence[ResidentPod] | None = None
    ) -> None:
        self.snapshot = snapshot
        self.residents = residents
        """Of a view of one node: its pods in the order in which they were bound; None where they are not told."""
        self._ledger = ledger
        overlay = None if ledger is None else ledger.overlay(snapshot)
        self._source: Snapshot | Overlay = snapshot if overlay is None else overlay

    @property
    def version(self) -> tuple[int, int]:
        """Generation of the snapshot, version of the ledger (0: empty); two views of one cluster with it are equal."""
        return self.snapshot.generation, 0 if isinstance(self._source, Snapshot) else self._source.version

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
        """int32 [zone, node]: pods with policy SingleNUMANode in the NUMA node, promised ones included."""
        return self._source.single_residents

    @property
    def multi_residents(self) -> Counts:
        """int32 [zone, node]: pods over several NUMA nodes, this one among them, promised ones included."""
        return self._source.multi_residents

    @property
    def ledger(self) -> Ledger | None:
        """Whose reservations are laid over the snapshot."""
        return self._ledger

    def covering(self, names: Iterable[str]) -> "View":
        """The same view with a row for each of these resources that any node offers; itself where it has them all."""
        snapshot = with_rows(self.snapshot, names)
        return self if snapshot is self.snapshot else _ViewCovering(self, snapshot)

    def without(self, closed: Bools) -> "View":
        """The same view with nothing free in the closed NUMA nodes. closed: bool [zone, node]."""
        return _ViewWithout(self, closed)

    def closed(self, nodes: Bools) -> "View":
        """The same view with no room on these nodes, not even for one pod that asks for nothing. nodes: bool [node]."""
        return _ViewClosed(self, nodes)


class _ViewCovering(View):
    """A view with more rows than its cluster's arrays have: few nodes offer those, and reservations are few."""

    __slots__ = ("_available", "_first", "_node_free", "_view")

    def __init__(self, view: View, snapshot: Snapshot) -> None:
        super().__init__(snapshot, residents=view.residents)
        self._view = view
        self._first = len(view.snapshot.resources)
        self._available, self._node_free = snapshot.available[self._first :], snapshot.node_free[self._first :]
        if view.ledger is not None:
            self._available, self._node_free = self._available.copy(), self._node_free.copy()
            for row, name in enumerate(snapshot.resources.names[self._first :]):
                for node in snapshot.rare[name]:
                    if node in snapshot.index:
                        self._reserve(row, name, snapshot.index[node], view.ledger.sums(node))

    def _reserve(self, row: int, name: str, node: int, sums: NodeSums) -> None:
        """As webhook.engine.snapshot.overlay does for the other rows."""
        self._node_free[row, node] = max(int(self._node_free[row, node]) - sums.requests.get(name, 0), -MAX_AMOUNT)
        allocatable = self.snapshot.zone_allocatable[self._first + row]
        for position, zone in enumerate(self.snapshot.zone_ids[:, node].tolist()):
            free = int(self._available[row, position, node])
            if free >= 0:
                given_back = free + sums.ended.get(zone, {}).get(name, 0)
                free = min(given_back, max(int(allocatable[position, node]), free))
                self._available[row, position, node] = max(free - sums.numa.get(zone, {}).get(name, 0), 0)

    @property
    def version(self) -> tuple[int, int]:
        return self._view.version

    @property
    def ledger(self) -> Ledger | None:
        return self._view.ledger

    def free(self, row: int) -> Amounts:
        return self._view.free(row) if row < self._first else self._available[row - self._first]

    def node_free(self, row: int) -> Amounts:
        return self._view.node_free(row) if row < self._first else self._node_free[row - self._first]

    @property
    def single_residents(self) -> Counts:
        return self._view.single_residents

    @property
    def multi_residents(self) -> Counts:
        return self._view.multi_residents


class _ViewWithout(View):
    """A view some of whose NUMA nodes have nothing free."""

    __slots__ = ("_closed", "_view")

    def __init__(self, view: View, closed: Bools) -> None:
        super().__init__(view.snapshot)
        self._view = view
        self._closed = closed

    @property
    def ledger(self) -> Ledger | None:
        return self._view.ledger

    def free(self, row: int) -> Amounts:
        plane = self._view.free(row)
        return np.where(self._closed, np.minimum(plane, 0), plane)

    def node_free(self, row: int) -> Amounts:
        return self._view.node_free(row)

    @property
    def single_residents(self) -> Counts:
        return self._view.single_residents

    @property
    def multi_residents(self) -> Counts:
        return self._view.multi_residents


class _ViewClosed(_ViewWithout):
    """A view some of whose nodes have no room; closed: bool [node], and so every NUMA node of theirs."""

    __slots__ = ()

    def node_free(self, row: int) -> Amounts:
        amounts = self._view.node_free(row)
        return np.where(self._closed, np.minimum(amounts, 0), amounts)
