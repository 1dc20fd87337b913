"""The order of nodes: by score, the pod's preference, what it leaves to idle devices, and name.

1. A node's score is that of its NUMA nodes; if preference has a weight, a mean of the two.
2. A node's rank is its score plus one, so that 0 means that it does not fit.
3. Expensive scores are left open; only an upper bound is known.
4. They are computed from the highest bound down, until enough nodes score higher than the others can.
5. Nodes of which no NUMA node lists CPUs, such as those of kubelets with default settings, have the same score however
   full they are. What the pod leaves to their idle devices decides (`cpus_left_to_idle_devices`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Bytes, Counts, Nodes, every
from webhook.engine.filter.node_preference import MOST, PER_POINT
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.resources import CPU, is_device

LEFT_BITS: Final = 31
_MOST: Final = 2**LEFT_BITS - 1
"""More millicores than any node has."""


def cpus_left_to_idle_devices(snapshot: Snapshot, request: PodRequest) -> Amounts | None:
    """int64 [node], 0 to 2^LEFT_BITS - 1: millicores that the pod leaves to each idle device that it does not request.

    If the CPUs of such a node were used up before those of the next one, devices that are idle there could not be used
    any more. Of several kinds of devices, the least. The most where none is idle or NUMA nodes list CPUs; None:
    everywhere.
    """
    node_arrays = snapshot.node_arrays
    cpu = node_arrays.resources.find(CPU)
    if cpu < 0 or every(node_arrays.listed[cpu]):
        return None
    unlisted = ~node_arrays.listed[cpu]
    amounts = dict(zip(request.resources, request.node, strict=True))
    left: Amounts | None = None
    for row, name in enumerate(node_arrays.resources):
        if not is_device(name) or amounts.get(name, 0) > 0:
            continue
        idle = snapshot.node_free(row)
        here = unlisted & (idle > 0)
        if np.count_nonzero(here):
            room = np.maximum(snapshot.node_free(cpu) - max(amounts.get(CPU, 0), 0), 0)
            left = np.full(node_arrays.n, _MOST, dtype=np.int64) if left is None else left
            np.minimum(left, room // np.maximum(idle, 1), out=left, where=here)
    return left


@dataclass(frozen=True, eq=False)
class Late:
    """Open scores."""

    nodes: Nodes
    """int [L]: indexes of the nodes."""
    best: int
    """The upper bound of all of them."""
    at_most: Callable[[], Bytes]
    """uint8 [L]: an upper bound of each, computed now."""
    scores: Callable[[Nodes], Bytes]
    """The scores (uint8) of some of them (indexes into `nodes`), computed now."""


@dataclass(frozen=True, eq=False)
class Liking:
    """How much the fitting nodes are preferred."""

    preference: Counts
    """int32 [N]: 0..MOST; 0 if a node does not fit."""
    weight: int
    """Its share of the score, in percent."""

    def mixed(self, scores: Bytes, nodes: Nodes) -> Bytes:
        """The scores (uint8 [n], 0..100) of some nodes (indexes), each averaged with its preference."""
        if not self.weight:
            return scores
        share = self.weight * self.preference[nodes] + (100 - self.weight) * PER_POINT * scores.astype(np.int32)
        return (share // MOST).astype(np.uint8)


class Ranking:
    """The ranks of N nodes."""

    def __init__(
        self,
        n: int,
        nodes: Nodes,
        scores: Bytes,
        late: Late | None = None,
        liking: Liking | None = None,
        left: Amounts | None = None,
    ) -> None:
        """N nodes of which some (indexes) have these scores (0..100), and others late ones. liking: None: all equal.

        left: int64 [N], what decides between nodes that are equal in both (idle_devices.py); None: nothing does.
        """
        self.liking = liking
        self._left_to_devices = left
        self._late = late
        self._ranks = np.zeros(n, dtype=np.uint8)
        # At an equal mean and preference the better score comes first.
        self._alone = np.zeros(n, dtype=np.uint8) if liking is not None and liking.weight else None
        self._put(nodes, scores)

    @cached_property
    def scores(self) -> Bytes:
        """uint8 [N]: all scores; 0 if a node does not fit."""
        self._settle(len(self._ranks) + 1)
        scores: Bytes = np.maximum(self._ranks, 1) - np.uint8(1)
        return scores

    def best(self, k: int, order: Nodes, last: Bools | None = None) -> tuple[Nodes, list[int]]:
        """The k best of at least k fitting nodes: indexes, best first, and their scores.

        order: int [N], the nodes sorted by name. last: bool [N], those that come after all others; None: none does.
        """
        self._settle(k if last is None else len(self._ranks) + 1)
        keys = self._keys()
        if last is not None:
            # Keys of nodes that fit begin at 1. Each group stays in its own order.
            keys = keys + int(keys.max(initial=0)) * (~last & (keys > 0)).astype(np.int64)
        if self._left_to_devices is not None:
            # A rank has 7 bits, with preferences 25, and one more where nodes come last: together below 2^63.
            keys = (keys.astype(np.int64) << LEFT_BITS) + self._left_to_devices * (keys > 0)
        keys = keys.take(order)
        smallest = len(keys) - k
        least = np.partition(keys, smallest)[smallest]
        (above,), (ties,) = (keys > least).nonzero(), (keys == least).nonzero()
        chosen = np.concatenate([above, ties[: k - len(above)]])
        # Stable: equal nodes stay in order of name.
        best_first = (~keys[chosen]).argsort(kind="stable")
        nodes = order[chosen[best_first]]
        return nodes, (self._ranks[nodes] - 1).tolist()

    def with_score(self, node: int, score: int | None) -> "Ranking | None":
        """The same with another score (0..100) of one node (an index); None: it does not fit.

        None if more than the scores decides, because that may depend on all nodes that fit.
        """
        if self._late is not None or self.liking is not None or self._left_to_devices is not None:
            return None
        ranks = self._ranks.copy()
        ranks[node] = 0 if score is None else score + 1
        (nodes,) = ranks.nonzero()
        return Ranking(len(ranks), nodes, ranks[nodes] - np.uint8(1))

    def _keys(self) -> Bytes | Counts | Amounts:
        """uint8 or int32 [N]: sort keys of nodes, the highest first; 0 if a node does not fit."""
        if self.liking is None:
            return self._ranks
        keys = self._ranks * np.int32(MOST + 1) + self.liking.preference
        return keys if self._alone is None else keys * np.int32(256) + self._alone

    def _put(self, nodes: Nodes, scores: Bytes) -> None:
        """Set the scores (0..100) of these nodes (indexes)."""
        if self._alone is not None:
            self._alone[nodes] = scores
        self._ranks[nodes] = self._mixed(scores, nodes) + np.uint8(1)

    def _mixed(self, scores: Bytes, nodes: Nodes) -> Bytes:
        return scores if self.liking is None else self.liking.mixed(scores, nodes)

    def _settle(self, k: int) -> None:
        """Compute open scores until k nodes score higher than the rest can."""
        late = self._late
        if late is None or self._above(self._highest(late)) >= k:
            return
        while self._left:
            at_most = self._left[-1]
            if self._above(at_most) >= k:
                return
            self._left.pop()
            (where,) = (self._at_most == at_most).nonzero()
            self._put(late.nodes[where], late.scores(where))

    def _highest(self, late: Late) -> int:
        """The upper bound of the open nodes."""
        if self.liking is None or not self.liking.weight:
            return late.best
        return int(self._mixed(np.full(len(late.nodes), late.best, dtype=np.uint8), late.nodes).max())

    @cached_property
    def _at_most(self) -> Bytes:
        """uint8 [L]: the upper bounds of late scores."""
        late = self._late
        return np.zeros(0, dtype=np.uint8) if late is None else self._mixed(late.at_most(), late.nodes)

    @cached_property
    def _left(self) -> list[int]:
        """The upper bounds of the scores that are still open, ascending."""
        return np.flatnonzero(np.bincount(self._at_most)).tolist()

    def _above(self, score: int) -> int:
        """How many nodes score higher, as far as known."""
        return int(np.count_nonzero(self._ranks > score + 1))
