"""The plugin's four scores, 0 to 100, higher is better, for all nodes at once.

1. A pod that is not Guaranteed scores 100 everywhere; a stale or missing NRT scores 0.
2. LeastAllocated, MostAllocated and BalancedAllocation look at nodes with policy single-numa-node only, others score
   0. Each part of the pod is scored on each NUMA node as published; a node's score is its smallest one that is not
   zero, and with scope container the mean over the containers, cut off.
3. LeastNUMANodes looks at every node (webhook.engine.plugin.least_numa_nodes).
Amounts are rounded up to whole units: 1500m cpu is 2.

Where upstream fails, this answers: a part that asks for nothing does not count (upstream divides by zero), a single
resource is balanced (upstream: not a number), NUMA ids may have gaps (upstream indexes by them and panics).
Source: scheduler-plugins pkg/noderesourcetopology/{score,least_allocated,most_allocated,balanced_allocation}.go.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, UNLISTED, Amounts
from webhook.engine.plugin.demand import Part, parts
from webhook.engine.plugin.least_numa_nodes import least_numa_nodes
from webhook.engine.request import PodRequest
from webhook.engine.view import View
from webhook.model.pod import QoS
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import CPU

MAX_SCORE: Final = 100
_MILLI: Final = 1000

Weights = Mapping[str, int]
"""Resource -> weight; absent or below 1 counts as 1."""

_Nodes = npt.NDArray[np.intp]
_Available = Callable[[str], Amounts]


class Strategy(StrEnum):
    """How nodes are ranked."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    BALANCED_ALLOCATION = "BalancedAllocation"
    LEAST_NUMA_NODES = "LeastNUMANodes"


def score_nodes(view: View, request: PodRequest, strategy: Strategy, weights: Weights) -> npt.NDArray[np.int64]:
    """int64 [N]: the plugin's score of every node, those that fail its Filter included."""
    snapshot = view.snapshot
    scores = np.zeros(snapshot.n, dtype=np.int64)
    if request.qos is not QoS.GUARANTEED:
        return scores + MAX_SCORE
    scored = snapshot.has_topology & snapshot.fresh
    if strategy is not Strategy.LEAST_NUMA_NODES:
        scored &= snapshot.policy == NUMAPolicy.SINGLE_NUMA_NODE
    for scope in Scope:
        nodes = np.flatnonzero(scored & (snapshot.scope == scope))
        if not len(nodes):
            continue
        sequence = parts(request, scope)
        if strategy is Strategy.LEAST_NUMA_NODES:
            scores[nodes] = least_numa_nodes(view, request, sequence, nodes)
        else:
            scores[nodes] = _allocation_scores(view, request, sequence, nodes, strategy, weights)
    return scores


def _allocation_scores(
    view: View, request: PodRequest, sequence: tuple[Part, ...], nodes: _Nodes, strategy: Strategy, weights: Weights
) -> npt.NDArray[np.int64]:
    rows = dict(zip(request.resources, request.rows, strict=True))
    unlisted = np.full((view.snapshot.z, len(nodes)), UNLISTED, dtype=np.int64)
    exists = view.snapshot.zone_ids[:, nodes] != NO_ZONE

    def available(name: str) -> Amounts:
        return unlisted if rows[name] < 0 else view.free(rows[name])[:, nodes]

    asking = [part for part in sequence if part.amounts]
    total = np.zeros(len(nodes), dtype=np.int64)
    for part in asking:
        if strategy is Strategy.BALANCED_ALLOCATION:
            zones = _balanced(part, available)
        else:
            zones = _weighted(part, available, weights, least=strategy is Strategy.LEAST_ALLOCATED)
        # A NUMA node that scores 0 does not fit at all and does not count.
        smallest = np.where(exists & (zones > 0), zones, MAX_SCORE + 1).min(axis=0)
        total += np.where(smallest > MAX_SCORE, 0, smallest)
    return total // max(len(asking), 1)


def _weighted(part: Part, available: _Available, weights: Weights, *, least: bool) -> npt.NDArray[np.int64]:
    """int64 [z, n]: mean over resources by weight of the share that stays free (least) or is asked for."""
    total = np.int64(0) + np.zeros((1, 1), dtype=np.int64)
    weight_sum = 0
    for name, amount in part.amounts.items():
        exact = available(name)
        whole, requested = _whole_units(name, exact), int(_whole_units(name, np.int64(amount)))
        used = whole - requested if least else np.broadcast_to(np.int64(requested), whole.shape)
        share = np.where((exact > 0) & (amount <= exact), used * MAX_SCORE // np.maximum(whole, 1), 0)
        weight = max(weights.get(name, 1), 1)
        total = total + share * weight
        weight_sum += weight
    return total // weight_sum


def _balanced(part: Part, available: _Available) -> npt.NDArray[np.int64]:
    """int64 [z, n]: 100 minus the sample variance of the shares asked for, in the float64 steps of upstream's library.

    The variance is the corrected two-pass one: what rounding leaves of the sum of deviations is taken off again.
    """
    fractions = []
    for name, amount in part.amounts.items():
        whole, requested = _whole_units(name, available(name)), int(_whole_units(name, np.int64(amount)))
        fractions.append(np.where(whole > 0, np.float64(requested) / np.maximum(whole, 1), 1.0))
    n = len(fractions)
    over = np.logical_or.reduce([fraction > 1 for fraction in fractions])
    mean = sum(fractions[1:], start=fractions[0]) / n
    squares = np.zeros_like(mean)
    compensation = np.zeros_like(mean)
    for fraction in fractions:
        deviation = fraction - mean
        squares = squares + deviation * deviation
        compensation = compensation + deviation
    variance = (squares - compensation * compensation / n) / max(n - 1, 1)
    score: npt.NDArray[np.int64] = np.where(over, 0.0, (1 - variance) * MAX_SCORE).astype(np.int64)
    return score


def _whole_units(name: str, amount: npt.NDArray[np.int64] | np.int64) -> npt.NDArray[np.int64]:
    """Cores instead of millicores, rounded up; -1, not listed, becomes 0."""
    rounded = -(-np.asarray(amount) // _MILLI) if name == CPU else np.asarray(amount)
    return np.maximum(rounded, 0)
