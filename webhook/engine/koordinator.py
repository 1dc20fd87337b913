"""Koordinator's rules in addition to those of kubelets: compatible policies, exclusive NUMA nodes, packing.

Source: koordinator pkg/scheduler/frameworkext/topologymanager (policy, exclusivity),
docs/proposals/scheduling/20240131-pod-level-numa-policy.md (matrix, score).
"""

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools, Bytes, Nodes, Picker, amounts_at, every
from webhook.engine.enforcement import unenforced
from webhook.engine.kubelet.bitmask import as_mask
from webhook.engine.reason import FITS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot import node_kind
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.options import Unenforced
from webhook.model.policy import NUMAPolicy, compatible

Masks = npt.NDArray[np.int64]

# The bonus for full NUMA nodes. Fractions are floating point: a value that differs from a whole number of points only
# by rounding (each step less than 2^-50) counts as that number.
_POINTS: Final = 10 + 2**-30

WIDE_BEST: Final = 90
"""The best packing score over two NUMA nodes or more: 100 - 2 x 10, and 10 if they are full with the pod."""


def policy_fit(node_arrays: NodeArrays, request: PodRequest) -> Bytes | None:
    """uint8 [node]: why the node's NUMA policy, or the lack of data about it, excludes the pod; None = it does not.

    A pod that insists on alignment needs a node with known NUMA nodes; others may run where nothing is known. No policy
    is compatible with an unknown one. Nodes that do not enforce its policy may be excluded by the operator.
    """
    verdicts = _verdicts(request.policy, request.strict)
    kinds = node_arrays.kind
    denied = unenforced(node_arrays, request) if node_arrays.unenforced is Unenforced.DENY else None
    if denied is None and node_arrays.n and verdicts[kinds[0]] == FITS and every(kinds == kinds[0]):
        return None
    found: Bytes = verdicts.take(kinds)
    if denied is not None:
        found[denied & (found == FITS)] = Reason.NOT_ENFORCED
    return found


@lru_cache(maxsize=8)
def _verdicts(policy: NUMAPolicy | None, strict: bool) -> Bytes:
    """uint8 [kind of node]: the reason for a pod with this policy there."""
    return np.array([_verdict(kind, policy, strict) for kind in range(node_kind.KINDS)], dtype=np.uint8)


def _verdict(kind: int, policy: NUMAPolicy | None, strict: bool) -> Reason:
    if strict and kind & node_kind.NO_TOPOLOGY:
        return Reason.NO_TOPOLOGY
    if policy and kind & node_kind.UNKNOWN_POLICY:
        return Reason.UNKNOWN_POLICY
    return Reason.FITS if compatible(policy, NUMAPolicy(kind & node_kind.POLICY)) else Reason.POLICY_MISMATCH


def ours_to_place(node_arrays: NodeArrays) -> Bools:
    """Where we choose the NUMA nodes, bool [node]: the kubelet does not align, or koordlet follows the hint."""
    unknown = node_arrays.kind & node_kind.UNKNOWN_POLICY != 0
    ours: Bools = ((node_arrays.policy == NUMAPolicy.NONE) | node_arrays.total) & ~unknown
    return ours


def is_ours_to_place(node_arrays: NodeArrays, n: int) -> bool:
    """Whether we choose the NUMA nodes of the node in column `n`."""
    aligns = node_arrays.policy[n] != NUMAPolicy.NONE and not node_arrays.total[n]
    return not (aligns or node_arrays.kind[n] & node_kind.UNKNOWN_POLICY)


def shut_out(snapshot: Snapshot, request: PodRequest) -> Bools | None:
    """The NUMA nodes that pods of the other kind use, bool [zone, node]; None if there are none.

    The other kind: for a SingleNUMANode pod those that span several NUMA nodes, for any other the SingleNUMANode
    pods.
    """
    single = request.policy is NUMAPolicy.SINGLE_NUMA_NODE
    residents = snapshot.multi_residents if single else snapshot.single_residents
    return residents > 0 if np.count_nonzero(residents) else None


def intrudes(shut: Bools, request: PodRequest, mask: Masks) -> Bools:
    """Where the assignment breaks exclusivity, bool [node]: it uses a NUMA node that excludes the pod.

    Pods other than SingleNUMANode break it only where they span several NUMA nodes.
    shut: bool [zone, node]; mask: int64 [node].
    """
    bits = np.int64(1) << np.arange(len(shut), dtype=np.int64)
    hit: Bools = (mask & (bits @ shut)) != 0
    return hit if request.policy is NUMAPolicy.SINGLE_NUMA_NODE else hit & (np.bitwise_count(mask) > 1)


def packing_score(snapshot: Snapshot, request: PodRequest, nodes: Nodes, mask: Masks) -> Bytes:
    """uint8 [n]: 100 - 10 for each NUMA node used (ten count at most) + 10 x how full those are with the pod.

    Fullness is requested/allocatable over the NUMA nodes used, averaged over the resources that the pod requests and
    NUMA nodes list. NUMA nodes that do not list a resource count as full. A pod that is bound to no NUMA node counts as
    spread over all NUMA nodes of its node; where none are known the score is 0. nodes: int [n], indexes of fitting
    nodes; mask: int64 [n], the NUMA nodes used, 0 = bound to none.
    """
    if not len(nodes):
        return np.zeros(0, dtype=np.uint8)
    node_arrays = snapshot.node_arrays
    nowhere: Bools | None = None
    if np.count_nonzero(mask) < len(mask):
        mask = np.where(mask > 0, mask, as_mask(node_arrays.zone_ids[:, nodes] >= 0))
        nowhere = mask == 0
        mask[nowhere] = 1
    sums = _Sums(mask, nodes, node_arrays.z)
    amounts = zip(request.rows, request.node, strict=True)
    columns = [
        (row, amount) for row, amount in amounts if amount > 0 <= row and np.count_nonzero(node_arrays.listed[row])
    ]
    empty = np.zeros(len(nodes))
    for row, amount in columns:
        left = sums.over(snapshot.free(row))
        left -= amount
        allocatable = sums.over(node_arrays.zone_allocatable[row])
        share = left / np.maximum(allocatable, 1, out=allocatable)
        empty += np.maximum(share, 0, out=share)
    empty *= -10 / max(len(columns), 1)
    # An inconsistent NRT may have more free than allocatable.
    np.maximum(empty, -10, out=empty)
    score = (empty + _POINTS).astype(np.uint8)
    score += sums.base
    if nowhere is not None:
        score[nowhere] = 0
    return score


def best_packing_score(width: Bytes) -> Bytes:
    """uint8 [n]: the best score over this number of NUMA nodes (uint8 [n], at least two) or more."""
    best: Bytes = WIDE_BEST + 20 - 10 * np.minimum(width, 10)
    return best


class _Sums:
    """Sums of planes over the NUMA nodes of a mask, on each of n nodes. A single NUMA node is a look-up."""

    def __init__(self, mask: Masks, nodes: Nodes, z: int) -> None:
        """mask: int64 [n], at least one of z bits each; nodes: int [n], indexes."""
        # The number of bits below the lowest one is its position.
        below = mask - 1
        self._narrow = not np.count_nonzero(mask & below)
        if self._narrow:
            self.base: Bytes = np.array([90], dtype=np.uint8)
            self._lowest = Picker(np.bitwise_count(below), nodes)
            return
        self._lowest = Picker(np.bitwise_count(below & ~mask), nodes)
        width = np.bitwise_count(mask)
        self.base = (100 - 10 * np.minimum(width, 10)).astype(np.uint8)
        self._wide = np.flatnonzero(width > 1)
        self._nodes = nodes[self._wide]
        self._bits = (mask[self._wide] >> np.arange(z)[:, None]) & 1

    def over(self, plane: Amounts) -> Amounts:
        """int64 [n], new; unlisted amounts count as at most 0. plane: int64 [zone, node]."""
        total = self._lowest.of(plane)
        if not self._narrow:
            total[self._wide] = (amounts_at(plane, self._nodes) * self._bits).sum(axis=0)
        return total
