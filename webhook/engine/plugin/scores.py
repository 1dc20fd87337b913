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
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, UNLISTED, Amounts, Bools
from webhook.engine.plugin.least_numa_nodes import least_numa_nodes
from webhook.engine.plugin.pod_requests import Part, parts
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.pod import QoS
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import CPU

MAX_SCORE: Final = 100
_MILLI: Final = 1000
# Products with 100 stay below 2^53, up to which float64 holds every integer.
_FLOAT_EXACT: Final = 2**53 // MAX_SCORE

Weights = Mapping[str, int]
"""Resource -> weight; absent or below 1 counts as 1."""

Numbers = npt.NDArray[Any]
"""Whole numbers, int64 or float64."""

_Nodes = npt.NDArray[np.intp]
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
    among: Bools | None = None,
    *,
    as_shipped: bool = True,
) -> npt.NDArray[np.int64]:
    """int64 [N]: the plugin's score of every node, including those that fail its Filter.

    among: bool [N]: the nodes to score; others get 0. as_shipped: repeat the plugin even where that makes
    LeastNUMANodes meaningless (webhook.engine.plugin.least_numa_nodes).
    """
    node_arrays = snapshot.node_arrays
    scores = np.zeros(node_arrays.n, dtype=np.int64)
    if request.qos is not QoS.GUARANTEED:
        return scores + MAX_SCORE
    scored = node_arrays.has_topology if among is None else node_arrays.has_topology & among
    if strategy is not Strategy.LEAST_NUMA_NODES:
        scored = scored & (node_arrays.plugin_policy == NUMAPolicy.SINGLE_NUMA_NODE)
    for scope in Scope:
        nodes = np.flatnonzero(scored & (node_arrays.plugin_scope == scope))
        if not len(nodes):
            continue
        sequence = parts(request, scope)
        if strategy is Strategy.LEAST_NUMA_NODES:
            scores[nodes] = least_numa_nodes(snapshot, request, sequence, nodes, as_shipped=as_shipped)
        else:
            scores[nodes] = _allocation_scores(snapshot, request, sequence, nodes, strategy, weights)
    return scores


def _allocation_scores(
    snapshot: Snapshot,
    request: PodRequest,
    sequence: tuple[Part, ...],
    nodes: _Nodes,
    strategy: Strategy,
    weights: Weights,
) -> npt.NDArray[np.int64]:
    rows = dict(zip(request.resources, request.rows, strict=True))
    unlisted = np.full((snapshot.node_arrays.z, len(nodes)), UNLISTED, dtype=np.int64)
    exists = snapshot.node_arrays.zone_ids.take(nodes, axis=1) != NO_ZONE

    def available(name: str) -> Amounts:
        return unlisted if rows[name] < 0 else snapshot.free(rows[name]).take(nodes, axis=1)

    asking = [part for part in sequence if part.amounts]
    total = np.zeros(len(nodes), dtype=np.int64)
    for part in asking:
        if strategy is Strategy.BALANCED_ALLOCATION:
            zones = _balanced(part, available)
        else:
            zones = _weighted(part, available, weights, least=strategy is Strategy.LEAST_ALLOCATED)
        # A NUMA node that scores 0 does not fit and does not count: subtracting one wraps around to the largest byte.
        bytes_below = (zones * exists).astype(np.uint8) - np.uint8(1)
        total += bytes_below.min(axis=0) + np.uint8(1)
    return total if len(asking) == 1 else total // max(len(asking), 1)


def _weighted(part: Part, available: _Available, weights: Weights, *, least: bool) -> Numbers:
    """[z, n]: mean over resources, by weight, of the fraction that stays free (least) or is requested."""
    total: Numbers | None = None
    weight_sum = sum(max(weights.get(name, 1), 1) for name in part.amounts)
    for name, amount in part.amounts.items():
        exact = available(name)
        whole, requested = _whole_units(name, exact, weight_sum), math.ceil(Fraction(amount, _unit(name)))
        used = whole - requested if least else requested
        share = _quotient(used * whole.dtype.type(MAX_SCORE), np.maximum(whole, 1, out=whole))
        share *= exact >= max(amount, 1)
        weight = max(weights.get(name, 1), 1)
        if weight > 1:
            share *= weight
        total = share if total is None else np.add(total, share, out=total)
    if total is None:
        return np.zeros((1, 1), dtype=np.int64)
    return _quotient(total, weight_sum) if weight_sum > 1 else total


def _balanced(part: Part, available: _Available) -> Numbers:
    """[z, n]: 100 minus the sample variance of the requested fractions, in the float64 steps of upstream's library.

    The variance is the corrected two-pass one, which subtracts the rounding error of the sum of deviations.
    """
    fractions = []
    for name, amount in part.amounts.items():
        whole, requested = _whole_units(name, available(name)), math.ceil(Fraction(amount, _unit(name)))
        fraction = np.float64(requested) / np.maximum(whole, 1)
        fraction[whole <= 0] = 1.0
        fractions.append(fraction)
    n = len(fractions)
    over = np.logical_or.reduce([fraction > 1 for fraction in fractions])
    mean = sum(fractions[1:], start=fractions[0]) / n
    squares = np.zeros_like(mean)
    compensation = np.zeros_like(mean)
    for fraction in fractions:
        deviation = fraction - mean
        compensation += deviation
        deviation *= deviation
        squares += deviation
    variance = (squares - compensation * compensation / n) / max(n - 1, 1)
    score: Numbers = np.where(over, 0.0, np.trunc((1 - variance) * MAX_SCORE))
    return score


def _unit(name: str) -> int:
    return _MILLI if name == CPU else 1


def _whole_units(name: str, amounts: Amounts, weight: int = 1) -> Numbers:
    """[z, n]: cores instead of millicores, rounded up; -1, not listed, becomes 0 or less.

    As float64, which is divided several times faster, where that is exact: a quotient that is not an integer q is at
    least 1 / divisor away from it, which float64 keeps apart as long as q * divisor < 2^53. Else as int64.
    """
    unit = _unit(name)
    if max(int(amounts.max(initial=0)), weight) < _FLOAT_EXACT:
        exact = amounts.astype(np.float64)
        return np.ceil(np.divide(exact, unit, out=exact), out=exact) if unit > 1 else exact
    return -(-amounts // unit)


def _quotient(dividend: Numbers, divisor: Numbers | int) -> Numbers:
    """Rounded down, of float64 too, in place if it can be."""
    if dividend.dtype == np.float64:
        dividend /= divisor
        return np.floor(dividend, out=dividend)
    rounded: Numbers = dividend // divisor
    return rounded
