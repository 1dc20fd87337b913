"""LeastNUMANodes: how few NUMA nodes a pod needs, and whether they are as close as any set of that width.

1. For each part: widths from 1 up; for each width the combinations of NUMA nodes that list every resource of the part
   and have enough together.
2. Of those the first that is as close as the closest combination of that width at all, else the closest, the first of
   equals. Distance is the mean over all ordered pairs, self included; an unpublished distance is 255.
   Most nodes have enough in one NUMA node. For these, comparing each resource once is the whole search.
3. With scope container, a part is subtracted from its NUMA nodes, lowest first, before the next.
   As shipped, a resource that no NUMA node of a node lists (memory, if an exporter publishes CPUs only) leaves no
   combination. Otherwise such a resource is not aligned there, and does not count.
4. Score: 100 minus unit times the largest width, plus half a unit if every combination was a closest one; a unit is
   100 over the node's maximum of NUMA nodes. No combination: 0. Parts that name no resource of any NUMA node do not
   count; if none counts, 100.

Source: scheduler-plugins pkg/noderesourcetopology/least_numa.go.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, UNKNOWN_DISTANCE, UNLISTED, Amounts, Bools, Nodes, every
from webhook.engine.kubelet.bitmask import lowest
from webhook.engine.plugin.pod_requests import Part, published
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot

_MAX_SCORE: Final = 100
# More than any request; sums over 64 NUMA nodes stay within int64.
_UNLIMITED: Final = 1 << 56


def least_numa_nodes(
    snapshot: Snapshot, request: PodRequest, sequence: Sequence[Part], nodes: Nodes, *, as_shipped: bool
) -> npt.NDArray[np.int64]:
    """int64 [n]: the score of some nodes (indexes). as_shipped: a resource that no NUMA node lists leaves no score."""
    unit = _MAX_SCORE // snapshot.node_arrays.max_numa_nodes.take(nodes).astype(np.int64)
    if len(sequence) > 1:
        return _searched(snapshot, request, sequence, nodes, unit, as_shipped)
    score = _MAX_SCORE - unit + unit // 2
    (rest,) = (~_one_suffices(snapshot, sequence[0], nodes)).nonzero()
    if len(rest):
        score[rest] = _searched(snapshot, request, sequence, nodes[rest], unit[rest], as_shipped)
    return score


def _one_suffices(snapshot: Snapshot, part: Part, nodes: Nodes) -> Bools:
    """Where (bool [n]) one NUMA node certainly has enough of everything, and none is closer to itself."""
    node_arrays = snapshot.node_arrays
    rows = [(node_arrays.resources.find(name), amount) for name, amount in part.amounts.items()]
    if not rows or any(row < 0 for row, _ in rows):
        return np.zeros(len(nodes), dtype=np.bool_)
    # Reading all nodes takes less time than selecting most of them. What is not listed is less than any amount.
    having = np.logical_and.reduce([snapshot.free(row) >= amount for row, amount in rows])
    suffices: Bools = having.any(axis=0).take(nodes)
    near = _equally_near_to_themselves(node_arrays, nodes)
    return suffices if near is None else suffices & near


def _equally_near_to_themselves(node_arrays: NodeArrays, nodes: Nodes) -> Bools | None:
    """Where (bool [n]) all NUMA nodes have the same distance to themselves, at most the unknown one; None: everywhere.

    The closest single NUMA node is then the lowest.
    """
    to_self = node_arrays.distances.diagonal().T
    equal = to_self == to_self[0]
    if int(np.count_nonzero(equal)) == equal.size and int(to_self[0].max(initial=0)) <= UNKNOWN_DISTANCE:
        return None
    equal &= to_self <= UNKNOWN_DISTANCE
    equal |= node_arrays.zone_ids == NO_ZONE
    near: Bools = equal.all(axis=0).take(nodes)
    return near


def _searched(
    snapshot: Snapshot,
    request: PodRequest,
    sequence: Sequence[Part],
    nodes: Nodes,
    unit: npt.NDArray[np.int64],
    as_shipped: bool,
) -> npt.NDArray[np.int64]:
    """int64 [n]: the score of some nodes (indexes), by all combinations where one NUMA node is not enough."""
    search = _Search(snapshot, request, nodes, as_shipped)
    n = len(nodes)
    widest = np.zeros(n, dtype=np.int64)
    nearest = np.ones(n, dtype=np.bool_)
    possible = np.ones(n, dtype=np.bool_)
    for part in sequence:
        counts = search.names_a_listed_resource(part)
        width, near, taken = search.find(part)
        possible &= ~counts | (width > 0)
        nearest &= ~counts | near
        widest = np.where(counts, np.maximum(widest, width), widest)
        if len(sequence) > 1:
            search.take(part, taken & counts)
    score = _MAX_SCORE - widest * unit + np.where(nearest, unit // 2, 0)
    return np.where(possible, np.where(widest > 0, score, _MAX_SCORE), 0)


class _Search:
    """Combinations of NUMA nodes on n nodes, with earlier parts subtracted."""

    def __init__(self, snapshot: Snapshot, request: PodRequest, nodes: Nodes, as_shipped: bool) -> None:
        node_arrays = snapshot.node_arrays
        everywhere = len(nodes) == node_arrays.n
        self._exists = (node_arrays.zone_ids if everywhere else node_arrays.zone_ids.take(nodes, axis=1)) != NO_ZONE
        self._node_arrays, self._nodes, self._as_shipped = node_arrays, nodes, as_shipped
        self._left: dict[str, Amounts] = {}
        for name, row in zip(request.resources, request.rows, strict=True):
            if row >= 0:
                self._left[name] = (published(snapshot, row) if as_shipped else snapshot.free(row)).take(nodes, axis=1)
                if not as_shipped:
                    self._left[name][:, ~node_arrays.listed[row].take(nodes)] = _UNLIMITED
            else:
                self._left[name] = np.full(self._exists.shape, UNLISTED if as_shipped else _UNLIMITED, dtype=np.int64)

    def names_a_listed_resource(self, part: Part) -> Bools:
        """Whether (bool [n]) some NUMA node lists a resource that the part names."""
        listed = np.zeros(len(self._nodes), dtype=np.bool_)
        for name in part.amounts:
            row = self._node_arrays.resources.find(name)
            if row >= 0:
                listed |= self._node_arrays.listed[row].take(self._nodes)
                if self._as_shipped:
                    listed |= (self._node_arrays.capacity[row] != UNLISTED).any(axis=0).take(self._nodes)
        return listed

    def find(self, part: Part) -> tuple[npt.NDArray[np.int64], Bools, Bools]:
        """Width (int64 [n], 0 = none), whether it is a nearest one (bool [n]), the NUMA nodes chosen (bool [z, n])."""
        z, n = self._exists.shape
        width = np.zeros(n, dtype=np.int64)
        near = np.zeros(n, dtype=np.bool_)
        chosen = np.zeros((z, n), dtype=np.bool_)
        first = 1
        near_themselves = _equally_near_to_themselves(self._node_arrays, self._nodes)
        if near_themselves is None or every(near_themselves):
            # The usual case: all single NUMA nodes are equally close, and the lowest with enough is chosen.
            zone = lowest(self._having(part.amounts))
            near = zone > 0
            width = near.astype(np.int64)
            chosen = (zone >> np.arange(z)[:, None]) & 1 == 1
            first = 2
            if near.all():
                return width, near, chosen
        usable = self._having(dict.fromkeys(part.amounts, 0))
        for k in range(first, z + 1):
            rest = np.flatnonzero((width == 0) & (usable.sum(axis=0) >= k))
            if not len(rest):
                continue
            table = _combinations(z, k)
            enough = usable[:, rest][table].all(axis=1)
            for name, amount in part.amounts.items():
                if amount:
                    enough &= self._left[name][:, rest][table].sum(axis=1) >= amount
            distance = self._distance(table, rest)
            least = np.where(self._exists[:, rest][table].all(axis=1), distance, np.float32(UNKNOWN_DISTANCE)).min(
                axis=0
            )
            reachable = np.where(enough, distance, np.float32(np.inf))
            pick = reachable.argmin(axis=0)
            found = enough.any(axis=0)
            width[rest] = np.where(found, k, 0)
            near[rest] = found & (reachable.min(axis=0) == least)
            picked = np.zeros((z, len(rest)), dtype=np.bool_)
            np.put_along_axis(picked, table[pick].T, values=True, axis=0)
            chosen[:, rest] = picked & found
        return width, near, chosen

    def _having(self, amounts: Mapping[str, int]) -> Bools:
        """Which NUMA nodes list every resource and have this much of it left by themselves (bool [z, n])."""
        having: Bools = self._exists.copy()
        for name, amount in amounts.items():
            having &= self._left[name] >= amount
        return having

    def _distance(self, table: npt.NDArray[np.intp], nodes: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        """float32 [combination, n]: the mean distance within each combination, as upstream rounds it."""
        k = table.shape[1]
        between = self._node_arrays.distances[:, :, self._nodes[nodes]]
        total = np.zeros((len(table), len(nodes)), dtype=np.int64)
        for left in range(k):
            for right in range(k):
                total += between[table[:, left], table[:, right]]
        return total.astype(np.float32) / np.float32(k * k)

    def take(self, part: Part, chosen: Bools) -> None:
        """Take the part off the chosen NUMA nodes (bool [z, n]), lowest first."""
        for name, amount in part.amounts.items():
            left = self._left[name]
            needed = np.full(left.shape[1], amount, dtype=np.int64)
            for position in range(len(left)):
                taken = np.where(chosen[position], np.clip(left[position], 0, needed), 0)
                left[position] -= taken
                needed -= taken


@lru_cache(maxsize=128)
def _combinations(z: int, k: int) -> npt.NDArray[np.intp]:
    """The combinations of k of z positions, in lexicographic order (intp [combination, k])."""
    return np.array(list(combinations(range(z), k)), dtype=np.intp)
