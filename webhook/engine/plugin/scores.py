"""The plugin's four scores, 0 to 100, higher is better, for all nodes at once.

1. A pod that is not Guaranteed scores 100 everywhere; a missing NRT scores 0.
2. LeastAllocated, MostAllocated and BalancedAllocation only score nodes with policy single-numa-node; others get 0.
   Each part of the pod is scored on each NUMA node as published. A node's score is its smallest nonzero one; with scope
   container it is the mean over the containers, truncated.
3. LeastNUMANodes scores every node (webhook.engine.plugin.least_numa_nodes).
Amounts are rounded up to whole units: 1500m cpu is 2.

Differences where upstream fails: a part that requests nothing does not count (upstream divides by zero), a single
resource is balanced (upstream: not a number), NUMA ids may have gaps (upstream indexes by them and panics).
Source: scheduler-plugins pkg/noderesourcetopology/{score,least_allocated,most_allocated,balanced_allocation}.go.
"""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, UNLISTED, Amounts, Bools, Bytes, Nodes, all_nodes
from webhook.engine.plugin.least_numa_nodes import least_numa_nodes
from webhook.engine.plugin.pod_requests import Part, by_scope, parts, published
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.pod import QoS
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import CPU

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

    as_shipped: repeat the plugin even where that makes LeastNUMANodes meaningless
    (webhook.engine.plugin.least_numa_nodes).
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
