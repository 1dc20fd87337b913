"""What nodes have free after some of their pods have ended.

- NUMA node: min(published + theirs + ended, allocatable) - (reserved - theirs), at least 0
- node: free + their requests
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webhook.engine.arrays import NO_ZONE, UNLISTED, Amounts, Counts, Nodes
from webhook.engine.freeing.holdings import HeldPod, NodeHoldings
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.engine.snapshot.snapshot import Snapshot

Effect = NDArray[np.int64]
"""int64 [amount]: what one pod gives back, as `FreedAmounts.effect` lays it out."""


@dataclass(frozen=True, slots=True)
class Freed:
    """Free amounts of T nodes, one column each; K resources, Z positions of NUMA nodes."""

    available: Amounts
    """int64 [K, Z, T]: -1 = the NUMA node does not list the resource."""
    node_free: Amounts
    """int64 [K, T]."""
    single_residents: Counts
    """int32 [Z, T]."""
    multi_residents: Counts
    """int32 [Z, T]."""


class FreedAmounts:
    """Free amounts of a snapshot's nodes, for some resources."""

    def __init__(self, snapshot: Snapshot, names: tuple[str, ...]) -> None:
        """names: the resources, each of which has a row in the snapshot."""
        arrays = snapshot.node_arrays
        self.names = names
        self.rows = [arrays.resources.find(name) for name in names]
        self._snapshot = snapshot
        self._columns = {name: column for column, name in enumerate(names)}
        self._z, self._k = arrays.z, len(names)
        self._effects: dict[tuple[Any, ...], Effect] = {}

    def node_free(self, node: int) -> list[int]:
        """Free on a node (an index) as a whole, by resource of `names`."""
        return [int(self._snapshot.node_free(row)[node]) for row in self.rows]

    def effect(self, node: int, pod: HeldPod) -> Effect:
        """What the pod gives back on the node, by resource.

        Then, by resource and NUMA node, what is published and what is reserved of it. Last, its counts for exclusivity
        by NUMA node.
        """
        position = self._position(node)
        key = (
            *position.items(),
            *(pod.requests.get(name, 0) for name in self.names),
            repr((pod.numa, pod.reserved, pod.single, pod.multi)),
        )
        if key not in self._effects:
            self._effects[key] = self._effect(position, pod)
        return self._effects[key]

    def no_effect(self) -> Effect:
        """The effect of no pod."""
        return np.zeros(self._k + 2 * self._k * self._z + 2 * self._z, dtype=np.int64)

    def base(self, node: int, holdings: NodeHoldings) -> Amounts:
        """int64 [3, K, Z]: what is reserved on a node, what ended pods give back there, and what it owes."""
        position = self._position(node)
        return np.stack([self._cells(position, each) for each in (holdings.reserved, holdings.ended, holdings.debt)])

    def after(self, nodes: Nodes, effects: Amounts, bases: dict[int, Amounts]) -> Freed:
        """What is free in each trial. nodes: int [trial]; effects: int64 [trial, amount], summed over the pods."""
        k, z, snapshot = self._k, self._z, self._snapshot
        arrays = snapshot.node_arrays
        cells = k * z
        whole = effects[:, :k].T
        numa = effects[:, k : k + cells].reshape(-1, k, z).transpose(1, 2, 0)
        reserved = effects[:, k + cells : k + 2 * cells].reshape(-1, k, z).transpose(1, 2, 0)
        counts = effects[:, k + 2 * cells :].reshape(-1, 2, z).transpose(1, 2, 0)
        # [reserved, ended, debt] x resource x NUMA node x trial
        base = np.stack([bases[node] for node in nodes.tolist()], axis=-1)
        published = arrays.available[self.rows][..., nodes]
        allocatable = arrays.zone_allocatable[self.rows][..., nodes]
        unpaid = published - base[2]
        free = np.minimum(unpaid + numa + base[1], np.maximum(allocatable, published)) - np.maximum(
            base[0] - reserved, 0
        )
        available = np.where(published == UNLISTED, UNLISTED, np.maximum(free, 0))
        node_free = np.stack([snapshot.node_free(row)[nodes] for row in self.rows]) + whole
        residents = [
            np.maximum(now[:, nodes] - counts[kind], 0).astype(now.dtype)
            for kind, now in enumerate((snapshot.single_residents, snapshot.multi_residents))
        ]
        return Freed(available, node_free, *residents)

    def _effect(self, position: dict[int, int], pod: HeldPod) -> Effect:
        counts = np.zeros((2, self._z), dtype=np.int64)
        for kind, numa_ids in enumerate((pod.single, pod.multi)):
            for numa_id in numa_ids:
                if numa_id in position:
                    counts[kind, position[numa_id]] += 1
        whole = np.array([pod.requests.get(name, 0) for name in self.names], dtype=np.int64)
        parts = (whole, self._cells(position, pod.numa), self._cells(position, pod.reserved), counts)
        return np.concatenate([part.ravel() for part in parts])

    def _cells(self, position: dict[int, int], numa: NumaAmounts) -> Amounts:
        cells = np.zeros((self._k, self._z), dtype=np.int64)
        for numa_id, amounts in numa.items():
            if numa_id in position:
                for name, amount in amounts.items():
                    if name in self._columns:
                        cells[self._columns[name], position[numa_id]] = amount
        return cells

    def _position(self, node: int) -> dict[int, int]:
        """NUMA id -> position on a node."""
        ids = self._snapshot.node_arrays.zone_ids[:, node].tolist()
        return {numa_id: z for z, numa_id in enumerate(ids) if numa_id != NO_ZONE}
