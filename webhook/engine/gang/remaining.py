"""Free amounts that remain while the slices of a gang are placed one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.gang.distribution import Share
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import Caps, Count, count
from webhook.engine.koordinator import ours_to_place
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree

# Half a million nodes with this amount stay within int64; 16 TiB are more than a gang needs of any one node.
_LARGE = 1 << 44


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """Pods of one class on some nodes. M nodes, in tree order; Z positions of NUMA nodes."""

    nodes: Amounts
    """int64 [M]: n of each node."""
    zones: Amounts
    """int64 [M, Z + 1]: pods in each NUMA node; the last column counts those that are bound to none."""


class Remaining:
    """The free amounts that slices take from. The given snapshot is never modified."""

    def __init__(self, snapshot: Snapshot, tree: TopologyTree, caps: Caps) -> None:
        self._caps = caps
        self._tree = tree
        self._available: Amounts | None = None
        self._node_free: Amounts | None = None
        self.snapshot = snapshot

    def slots(self, pod_class: PodClass) -> tuple[Amounts, Count]:
        """int64 [position]: the pods of a class that each node can take, and the count behind it."""
        is_changed = self._available is not None
        counted = count(self.snapshot, pod_class) if is_changed else self._caps.count(self.snapshot, pod_class)
        counted = self._caps.limited(pod_class, counted)
        return counted.nodes.take(self._tree.order), counted

    def totals_suffice(self, level: int, needs: Sequence[tuple[PodClass, int]]) -> Bools:
        """Which domains of a level have enough in total for that many pods of these classes: bool [domain]."""
        totals: dict[int, int] = {}
        for pod_class, pods in needs:
            for row, amount in pod_class.node.items():
                totals[row] = totals.get(row, 0) + pods * amount
        enough = np.ones(self._tree.size(level), dtype=np.bool_)
        for row, total in totals.items():
            # Amounts beyond the needs of all pods are capped; otherwise sums might exceed int64.
            free = np.clip(self.snapshot.node_free(row)[self._tree.order], 0, min(total, _LARGE))
            enough &= self._tree.sums(level, free) >= min(total, _LARGE)
        return enough

    def holds(self, level: int, needs: Sequence[tuple[PodClass, int]]) -> Amounts:
        """int64 [domain]: how many of these pods each domain of a level holds, each class counted by itself."""
        held = np.zeros(self._tree.size(level), dtype=np.int64)
        for pod_class, pods in needs:
            held += np.minimum(self._tree.sums(level, self.slots(pod_class)[0]), pods)
        return held

    def assign(self, counted: Count, share: Share) -> Taken:
        """The NUMA nodes for pods per position: the lowest first, as kubelets do; where we choose, the fullest."""
        nodes = self._tree.order[share.domains].astype(np.int64)
        z = self.snapshot.node_arrays.z
        zones = np.zeros((len(nodes), z + 1), dtype=np.int64)
        if counted.zones is None:
            zones[:, z] = share.amounts
            return Taken(nodes, zones)
        domain_capacity = counted.zones[:, nodes].T
        ours = ours_to_place(self.snapshot.node_arrays)[nodes]
        order = np.argsort(np.where(ours[:, None] & (domain_capacity > 0), domain_capacity, 0), axis=1, kind="stable")
        in_order = np.take_along_axis(domain_capacity, order, axis=1)
        before = in_order.cumsum(axis=1) - in_order
        np.put_along_axis(zones, order, np.clip(share.amounts[:, None] - before, 0, in_order), axis=1)
        loose = ~counted.bound[nodes]
        if loose.any():
            zones[loose] = 0
            zones[loose, z] = share.amounts[loose]
        return Taken(nodes, zones)

    def take(self, pod_class: PodClass, taken: Taken) -> None:
        """Subtract these pods."""
        available, node_free = self._writable()
        totals = taken.zones.sum(axis=1)
        for row, amount in pod_class.node.items():
            node_free[row, taken.nodes] -= totals * amount
        for bound in pod_class.ways.bound:
            here = bound.where[taken.nodes]
            nodes = taken.nodes[here]
            for row, amount in bound.share.amounts.items():
                available[row][:, nodes] -= taken.zones[here, :-1].T * amount

    def save(self) -> tuple[Amounts, Amounts]:
        """A copy of the current state, to restore later."""
        available, node_free = self._writable()
        return available.copy(), node_free.copy()

    def restore(self, saved: tuple[Amounts, Amounts]) -> None:
        """Back to a saved state."""
        available, node_free = self._writable()
        available[:], node_free[:] = saved

    def _writable(self) -> tuple[Amounts, Amounts]:
        if self._available is None or self._node_free is None:
            rows = range(len(self.snapshot.node_arrays.available))
            self._available = np.stack([self.snapshot.free(row) for row in rows])
            self._node_free = np.stack([self.snapshot.node_free(row) for row in rows])
            # Exclusivity is unchanged: members of one gang do not exclude each other.
            copied = replace(
                self.snapshot.node_arrays,
                available=self._available,
                node_free=self._node_free,
                single_residents=self.snapshot.single_residents,
                multi_residents=self.snapshot.multi_residents,
            )
            self.snapshot = Snapshot(copied)
        return self._available, self._node_free
