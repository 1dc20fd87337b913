"""What is free at the moment of one decision: a snapshot with the ledger's reservations laid over it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Counts
from webhook.engine.reserve.ledger import Ledger
from webhook.engine.snapshot import Snapshot
from webhook.model.resident import ResidentPod

if TYPE_CHECKING:
    from webhook.engine.reserve.overlay import Overlay


class View:
    """Free amounts: the snapshot's, minus what the ledger reserves. Read-only, and stays as it is while held."""

    __slots__ = ("_source", "residents", "snapshot")

    def __init__(
        self, snapshot: Snapshot, ledger: Ledger | None = None, residents: Sequence[ResidentPod] | None = None
    ) -> None:
        self.snapshot = snapshot
        self.residents = residents
        """Of a view of one node: its pods in the order in which they were bound; None where they are not told."""
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

    def without(self, closed: Bools) -> "View":
        """The same view with nothing free in the closed NUMA nodes. closed: bool [zone, node]."""
        return _ViewWithout(self, closed)

    def closed(self, nodes: Bools) -> "View":
        """The same view with no room on these nodes, not even for one pod that asks for nothing. nodes: bool [node]."""
        return _ViewClosed(self, nodes)


class _ViewWithout(View):
    """A view some of whose NUMA nodes have nothing free."""

    __slots__ = ("_closed", "_view")

    def __init__(self, view: View, closed: Bools) -> None:
        super().__init__(view.snapshot)
        self._view = view
        self._closed = closed

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
