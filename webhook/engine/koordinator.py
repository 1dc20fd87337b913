"""Koordinator's rules on top of what kubelets do: which policies go together, exclusive NUMA nodes, packing.

Source: koordinator pkg/scheduler/frameworkext/topologymanager (policy, exclusivity),
docs/proposals/scheduling/20240131-pod-level-numa-policy.md (matrix, score).
"""

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine import node_kind
from webhook.engine.arrays import Amounts, Bools, Bytes, Enums, Picker
from webhook.engine.numafit import NUMAFit
from webhook.engine.reason import FITS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot import Snapshot
from webhook.engine.view import View
from webhook.model.policy import NUMAPolicy, compatible

Masks = npt.NDArray[np.int64]

# Shares of NUMA nodes are counted in thousandths: amounts up to 2^53 (8 PiB) times 1000 stay within int64.
_THOUSAND: Final = 1000

WIDE_BEST: Final = 90
"""The best packing score over two NUMA nodes or more: 100 - 2 x 10, and 10 if they are full with the pod in."""

# Positions that a mask (int64) has room for.
_BITS: Final = 63


def policy_fit(snapshot: Snapshot, request: PodRequest) -> Bytes | None:
    """uint8 [node]: why the node's NUMA policy, or what is known of it, does not go with the pod; None = it does.

    A pod that insists on alignment needs a node whose NUMA nodes are known; others may go where nothing is known. Where
    misalignment would be refused, an NRT known to be out of date will not do.
    """
    verdicts = _verdicts(request.policy, request.strict)
    kinds = snapshot.kind
    reasons = None
    if not (snapshot.n and verdicts[kinds[0]] == FITS and _all(kinds == kinds[0])):
        reasons = verdicts.take(kinds)
    if not _all(snapshot.fresh):
        stale = ~snapshot.fresh & (effective_policy(snapshot, request) >= NUMAPolicy.RESTRICTED)
        reasons = np.zeros(snapshot.n, dtype=np.uint8) if reasons is None else reasons
        np.putmask(reasons, stale & (reasons != Reason.NO_TOPOLOGY), np.uint8(Reason.STALE_TOPOLOGY))
    return reasons


def _all(flags: Bools) -> bool:
    """The same as flags.all(), which takes twice as long."""
    return int(np.count_nonzero(flags)) == len(flags)


@lru_cache(maxsize=8)
def _verdicts(policy: NUMAPolicy | None, strict: bool) -> Bytes:
    """uint8 [kind of node]: what becomes of a pod with this policy there."""
    return np.array([_verdict(kind, policy, strict) for kind in range(node_kind.KINDS)], dtype=np.uint8)


def _verdict(kind: int, policy: NUMAPolicy | None, strict: bool) -> Reason:
    if strict and kind & node_kind.NO_TOPOLOGY:
        return Reason.NO_TOPOLOGY
    return Reason.FITS if compatible(policy, NUMAPolicy(kind & node_kind.POLICY)) else Reason.POLICY_MISMATCH


def effective_policy(snapshot: Snapshot, request: PodRequest) -> Enums:
    """int8 [node]: the policy that holds for the pod: its own if it has one, else the node's."""
    if request.policy is None:
        return snapshot.policy
    return np.full(snapshot.n, request.policy, dtype=np.int8)


def ours_to_place(snapshot: Snapshot) -> Bools:
    """Where the NUMA nodes are ours to choose, bool [node]: the kubelet does not align, or koordlet does as told."""
    ours: Bools = (snapshot.policy == NUMAPolicy.NONE) | snapshot.total
    return ours


def shut_out(view: View, request: PodRequest) -> Bools | None:
    """The NUMA nodes that pods of the other kind live in, bool [zone, node]; None if there are none.

    The other kind: for a SingleNUMANode pod those that span several NUMA nodes, for any other the SingleNUMANode pods.
    """
    single = request.policy is NUMAPolicy.SINGLE_NUMA_NODE
    residents = view.multi_residents if single else view.single_residents
    return residents > 0 if residents.any() else None


def intrudes(shut: Bools, request: PodRequest, mask: Masks) -> Bools:
    """Where the placement breaks exclusivity, bool [node]: some NUMA node of it is shut out for the pod.

    Pods other than SingleNUMANode are minded only where they span several NUMA nodes.
    shut: bool [zone, node]; mask: int64 [node].
    """
    bits = np.int64(1) << np.arange(len(shut), dtype=np.int64)
    hit: Bools = (mask & (bits @ shut)) != 0
    return hit if request.policy is NUMAPolicy.SINGLE_NUMA_NODE else hit & (np.bitwise_count(mask) > 1)


def packing_score(view: View, request: PodRequest, fit: NUMAFit) -> Amounts:
    """int64 [node]: 100 - 10 for each NUMA node used + 10 x how full those are with the pod in, within 0..100.

    Fullness is requested/allocatable over the NUMA nodes used, averaged over the resources that the pod requests and
    NUMA nodes list: for each resource rounded down to thousandths, the bonus rounded down once more. NUMA nodes that do
    not list a resource are full of it. A pod that is bound to no NUMA node counts as spread over all of its node's;
    where none are known the score is 0. Means nothing where the pod does not fit.
    """
    snapshot = view.snapshot
    # Where the pod does not fit, any NUMA node will do.
    used = np.maximum(fit.mask, 1)
    unbound = (fit.mask == 0) & fit.fits
    nowhere: Bools | None = None
    if np.count_nonzero(unbound):
        used[unbound] = _machine_mask(snapshot)[unbound]
        nowhere = used == 0
        used[nowhere] = 1
    sums = _Sums(used)
    amounts = zip(request.rows, request.node.tolist(), strict=True)
    columns = [(row, amount) for row, amount in amounts if amount > 0 <= row and snapshot.listed[row].any()]
    score = np.zeros(snapshot.n, dtype=np.int64)
    for row, amount in columns:
        allocatable = sums.over(snapshot.zone_allocatable[row])
        taken = allocatable - sums.over(view.free(row))
        taken += amount
        taken *= _THOUSAND
        taken //= np.maximum(allocatable, 1, out=allocatable)
        score += np.minimum(taken, _THOUSAND, out=taken)
    score //= _THOUSAND // 10 * max(len(columns), 1)
    score += 90 if sums.narrow else 100 - np.int64(10) * sums.width
    np.maximum(score, 0, out=score)
    np.minimum(score, 100, out=score)
    if nowhere is not None:
        score[nowhere] = 0
    return score


class _Sums:
    """Sums of planes over the NUMA nodes of a mask, on each node. The common case, one NUMA node, is a look-up."""

    def __init__(self, mask: Masks) -> None:
        """mask: int64 [node], at least one bit each."""
        self.width = np.bitwise_count(mask)
        self.narrow = int(self.width.max(initial=1)) == 1
        # The bits below the lowest one are as many as its position.
        below = (mask if self.narrow else mask & -mask) - 1
        self._lowest = Picker(np.bitwise_count(below))
        if not self.narrow:
            self._wide = np.flatnonzero(self.width > 1)
            self._bits = (mask[self._wide] >> np.arange(_BITS)[:, None]) & 1

    def over(self, plane: Amounts) -> Amounts:
        """int64 [node], new; what is not listed is at most 0. plane: int64 [zone, node]."""
        total = self._lowest.of(plane)
        if not self.narrow:
            listed = np.maximum(plane[:, self._wide], 0)
            total[self._wide] = (listed * self._bits[: len(plane)]).sum(axis=0)
        return total


def _machine_mask(snapshot: Snapshot) -> Masks:
    bits = np.int64(1) << np.arange(snapshot.z, dtype=np.int64)
    machine: Masks = bits @ (snapshot.zone_ids >= 0)
    return machine
