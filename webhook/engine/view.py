"""What is free at the moment of one decision: a snapshot with the ledger's reservations laid over it.

Life of an overlay:
1. While nothing is reserved there is none: a view reads the snapshot's own arrays.
2. With the first reservation, the four arrays that reservations touch are copied once.
3. From view to view only the nodes that changed (in the snapshot or in the ledger) are written again.
A view never changes: an overlay that some view still holds is copied before it is written.
"""

from weakref import WeakKeyDictionary, ref

import numpy as np

from webhook.engine.arrays import UNLISTED, Amounts, Counts
from webhook.engine.changes import ChangeLog
from webhook.engine.ledger import Ledger, NodeSums
from webhook.engine.snapshot import Snapshot


class View:
    """Free amounts: the snapshot's, minus what the ledger reserves. Read-only, and stays as it is."""

    __slots__ = ("__weakref__", "_overlay", "snapshot")

    def __init__(self, snapshot: Snapshot, ledger: Ledger | None = None) -> None:
        self.snapshot = snapshot
        self._overlay = _overlay(snapshot, ledger) if ledger else None

    def free(self, row: int) -> Amounts:
        """int64 [zone, node]: free in each NUMA node; -1 = it does not list the resource; never negative otherwise."""
        source = self.snapshot if self._overlay is None else self._overlay
        return source.available[row]

    def node_free(self, row: int) -> Amounts:
        """int64 [node]: free on the node as a whole: allocatable minus requests; negative if over-committed."""
        source = self.snapshot if self._overlay is None else self._overlay
        return source.node_free[row]

    @property
    def single_residents(self) -> Counts:
        """int32 [zone, node]: pods with policy SingleNUMANode in the NUMA node, reserved ones included."""
        return (self.snapshot if self._overlay is None else self._overlay).single_residents

    @property
    def multi_residents(self) -> Counts:
        """int32 [zone, node]: pods over several NUMA nodes, this one among them, reserved ones included."""
        return (self.snapshot if self._overlay is None else self._overlay).multi_residents
