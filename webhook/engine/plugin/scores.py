"""The plugin's four scores, 0 to 100, higher is better, for all nodes at once.

1. A pod that is not Guaranteed scores 100 everywhere; a missing NRT scores 0.
2. LeastAllocated, MostAllocated and BalancedAllocation only score nodes with policy single-numa-node; others get 0.
   Each part of the pod is scored on each NUMA node as published. A node's score is its smallest nonzero one; with scope
   container it is the mean over the containers, truncated.
3. LeastNUMANodes scores every node (`least_numa_nodes`).
Amounts are rounded up to whole units: 1500m cpu is 2.

Differences where upstream fails: a part that requests nothing does not count (upstream divides by zero), a single
resource is balanced (upstream: not a number), NUMA ids may have gaps (upstream indexes by them and panics).
Source: scheduler-plugins pkg/noderesourcetopology/{score,least_allocated,most_allocated,balanced_allocation}.go.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, UNKNOWN_DISTANCE, UNLISTED, Amounts, Bools, Bytes, Nodes, all_nodes, every
from webhook.engine.kubelet.bitmask import lowest
from webhook.engine.plugin.filter import Part, by_scope, parts, published
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import QoS
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import CPU

_MAX_SCORE: Final = 100
# More than any request; sums over 64 NUMA nodes stay within int64.
_UNLIMITED: Final = 1 << 56


def least_numa_nodes(
    snapshot: Snapshot, request: PodRequest, sequence: Sequence[Part], nodes: Nodes, *, as_shipped: bool
) -> npt.NDArray[np.int64]:
    """int64 [n]: the score LeastNUMANodes of some nodes (indexes).

    It says how few NUMA nodes a pod needs, and whether they are as close as any set of that width:
    1. For each part: widths from 1 up; for each width the combinations of NUMA nodes that list every resource of the
       part and have enough together.
    2. Of those the first that is as close as the closest combination of that width at all, else the closest, the first
       of equals. Distance is the mean over all ordered pairs, self included; an unpublished distance is 255. Most nodes
       have enough in one NUMA node. For these, comparing each resource once is the whole search.
    3. With scope container, a part is subtracted from its NUMA nodes, lowest first, before the next.
       As shipped, a resource that no NUMA node of a node lists (memory, if an exporter publishes CPUs only) leaves no
       combination. Otherwise such a resource is not aligned there, and does not count.
    4. Score: 100 minus unit times the largest width, plus half a unit if every combination was a closest one; a unit is
       100 over the node's maximum of NUMA nodes. No combination: 0. Parts that name no resource of any NUMA node do not
       count; if none counts, 100.

    Source: scheduler-plugins pkg/noderesourcetopology/least_numa.go.

    as_shipped: a resource that no NUMA node lists leaves no score.
    """
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


MAX_SCORE: Final = 100
_MILLI: Final = 1000
# Products with 100 stay below 2^53 (2^24), up to which float64 (float32) has every integer.
_FLOAT_EXACT: Final = 2**53 // MAX_SCORE
_FLOAT32_EXACT: Final = 2**24 // MAX_SCORE

Weights = Mapping[str, int]
"""Resource -> weight; absent or below 1 counts as 1."""

Numbers = npt.NDArray[Any]
"""Whole numbers: bytes, or int64 where they may be large."""

_Available = Callable[[str], Amounts]


class Strategy(StrEnum):
    """How nodes are ranked."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    BALANCED_ALLOCATION = "BalancedAllocation"
    LEAST_NUMA_NODES = "LeastNUMANodes"


def score_nodes(
    snapshot: Snapshot,
    request: PodRequest,
    strategy: Strategy,
    weights: Weights,
    nodes: Nodes | None = None,
    *,
    as_shipped: bool = True,
) -> npt.NDArray[np.int64]:
    """int64 [n]: the plugin's score of some nodes (indexes, ascending; None = all), also of those that fail its Filter.

    as_shipped: repeat the plugin even where that makes LeastNUMANodes meaningless (see `least_numa_nodes`).
    """
    node_arrays = snapshot.node_arrays
    if nodes is None:
        nodes = all_nodes(node_arrays.n)
    scores = np.zeros(len(nodes), dtype=np.int64)
    if request.qos is not QoS.GUARANTEED:
        return scores + MAX_SCORE
    scored = node_arrays.has_topology
    if strategy is not Strategy.LEAST_NUMA_NODES:
        scored = scored & (node_arrays.plugin_policy == NUMAPolicy.SINGLE_NUMA_NODE)
    for scope, at in by_scope(node_arrays, scored, nodes):
        here, sequence = nodes[at], parts(request, scope)
        if strategy is Strategy.LEAST_NUMA_NODES:
            scores[at] = least_numa_nodes(snapshot, request, sequence, here, as_shipped=as_shipped)
        else:
            scores[at] = _allocation_scores(snapshot, request, sequence, here, strategy, weights)
    return scores


def _allocation_scores(
    snapshot: Snapshot,
    request: PodRequest,
    sequence: tuple[Part, ...],
    nodes: Nodes,
    strategy: Strategy,
    weights: Weights,
) -> npt.NDArray[np.int64]:
    n = snapshot.node_arrays.n
    if strategy is Strategy.BALANCED_ALLOCATION and n // 2 < len(nodes) < n:
        # Most NUMA nodes are left out by one comparison. So selecting most nodes costs more than computing all.
        return _allocation_scores(snapshot, request, sequence, all_nodes(n), strategy, weights).take(nodes)
    rows = dict(zip(request.resources, request.rows, strict=True))

    @cache
    def available(name: str) -> Amounts:
        if rows[name] < 0:
            return np.full((snapshot.node_arrays.z, len(nodes)), UNLISTED, dtype=np.int64)
        plane = published(snapshot, rows[name])
        return plane if len(nodes) == n else plane.take(nodes, axis=1)

    asking = [part for part in sequence if part.amounts]
    total = np.zeros(len(nodes), dtype=np.int64)
    for part in asking:
        if strategy is Strategy.BALANCED_ALLOCATION:
            ids = snapshot.node_arrays.zone_ids
            zones = _balanced(part, available, (ids if len(nodes) == n else ids.take(nodes, axis=1)) != NO_ZONE)
        else:
            zones = _weighted(part, available, weights, least=strategy is Strategy.LEAST_ALLOCATED)
        # A NUMA node that scores 0 does not fit and does not count: subtracting one wraps around to the largest byte.
        zones -= np.uint8(1)
        total += zones.min(axis=0) + np.uint8(1)
    return total if len(asking) == 1 else total // max(len(asking), 1)


def _weighted(part: Part, available: _Available, weights: Weights, *, least: bool) -> Bytes:
    """uint8 [z, n], new: mean over resources, by weight, of the fraction that stays free (least) or is requested."""
    weight_of = {name: max(weights.get(name, 1), 1) for name in part.amounts}
    shares: dict[str, Numbers] = {
        name: _share(name, amount, available(name), least=least) for name, amount in part.amounts.items()
    }
    if len(shares) == 1:
        (total,) = shares.values()
        return np.asarray(total, dtype=np.uint8)
    weight_sum = sum(weight_of.values())
    # Sums of 16 bits are divided many times faster than others.
    wide = np.uint16 if weight_sum * MAX_SCORE < 1 << 16 else np.int64
    first, *others = [share * wide(weight_of[name]) for name, share in shares.items()]
    total = sum(others, start=first)
    return np.asarray(total // total.dtype.type(weight_sum), dtype=np.uint8)


def _share(name: str, amount: int, exact: Amounts, *, least: bool) -> Numbers:
    """[z, n], new: 0..100, the fraction of a resource that stays free (least) or is requested; 0 if it is not enough.

    1. What is free, at least as much as is requested: what is not enough then counts as just enough.
    2. The requested fraction. Whole numbers up to 2^53 / 100 are divided as float64, several times faster than int64
       and exact: a quotient that is not an integer q is at least 1 / divisor away from it, which float64 keeps apart as
       long as q * divisor < 2^53. For float32, twice as fast, the same holds with 2^24: up to 167 cores or devices.
    3. Just enough leaves nothing free. To be requested in full, it must be enough indeed.
    """
    unit = _unit(name)
    requested = math.ceil(Fraction(amount, unit))
    most = int(exact.max(initial=0))
    if amount == 0 or amount > most:
        return (exact > amount) * np.uint8(MAX_SCORE if least else 0)
    if most >= _FLOAT_EXACT:
        units = -(-exact // unit)
        used = units - requested if least else requested
        large: Numbers = used * np.int64(MAX_SCORE) // np.maximum(units, 1)
        return large * (exact >= amount)
    whole: npt.NDArray[np.floating] = exact.astype(np.float32 if most < _FLOAT32_EXACT else np.float64)
    if unit > 1:
        whole /= unit
        np.ceil(whole, out=whole)
    np.maximum(whole, requested, out=whole)
    np.divide(requested * MAX_SCORE, whole, out=whole)
    if least:
        free: Bytes = MAX_SCORE - np.ceil(whole, out=whole).astype(np.uint8)
        return free
    share: Bytes = whole.astype(np.uint8)
    share *= exact >= amount
    return share


def _balanced(part: Part, available: _Available, exists: Bools) -> Bytes:
    """uint8 [z, n], new: 100 minus the sample variance of the requested fractions, in the float64 steps of upstream.

    1. A NUMA node with less than requested of a resource that it lists scores 0; most are left out by this.
    2. Of the others, the fractions; 1 for what is not listed. Amounts beyond 2^53 may be rounded to just enough.
    3. The variance is the corrected two-pass one, which subtracts the rounding error of the sum of deviations.
    """
    wanted = []
    for name, amount in part.amounts.items():
        unit, exact = _unit(name), available(name)
        requested = math.ceil(Fraction(amount, unit))
        # The least amount that is rounded up to the request; rounding to float64 changes it by less than 2^-50.
        least = unit * (requested - 1) + 1
        exists = exists & ((exact >= least - (least >> 50)) | (exact <= 0))
        wanted.append((exact, requested, unit))
    scores = np.zeros(exists.shape, dtype=np.uint8)
    (cells,) = exists.reshape(-1).nonzero()
    fractions = [_fraction(exact.take(cells), requested, unit) for exact, requested, unit in wanted]
    n = len(fractions)
    mean = sum(fractions[1:], start=fractions[0]) / n
    deviations = [fraction - mean for fraction in fractions]
    compensation = sum(deviations[1:], start=deviations[0])
    first, *others = [deviation * deviation for deviation in deviations]
    variance = sum(others, start=first) - compensation * compensation / n
    if n > 2:
        variance /= n - 1
    over = np.logical_or.reduce([fraction > 1 for fraction in fractions])
    # The conversion to bytes truncates.
    scores.reshape(-1)[cells] = ((1 - variance) * MAX_SCORE).astype(np.uint8) * ~over
    return scores


def _fraction(exact: Amounts, requested: int, unit: int) -> npt.NDArray[np.float64]:
    """float64 [n]: what is requested of amounts (int64 [n]), both in whole units rounded up; 1 where not listed."""
    whole = -(-exact // unit) if unit > 1 else exact
    fraction: npt.NDArray[np.float64] = np.float64(requested) / np.maximum(whole, 1)
    np.putmask(fraction, whole <= 0, 1.0)
    return fraction


def _unit(name: str) -> int:
    return _MILLI if name == CPU else 1
