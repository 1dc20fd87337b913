"""Memory groups: the NUMA nodes that a kubelet's memory manager uses together, as far as an NRT shows them.

1. A NUMA node serves either pods whose memory is on it alone, or pods whose memory is on exactly one set of several
   NUMA nodes: a group. The first pod after an empty state decides.
2. An NRT shows the memory in use, but not which of the two it is.
3. Where only preferred hints are admitted, the amount in use narrows it down: each pod of a group requested more than
   any narrower set of NUMA nodes has.
4. The hint of a pod with one container shows that the NUMA nodes of its memory are in one group: it is those, or, with
   best-effort, more.

Source: kubernetes pkg/kubelet/cm/memorymanager/policy_static.go.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools, Nodes
from webhook.engine.kubelet.bitmask import members, subset_sums, subsets_of, widths
from webhook.engine.kubelet.pools import Pool
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import is_memory

UNASSIGNED: Final = 0
"""Group of a NUMA node with no memory in use."""
UNKNOWN_GROUP: Final = -1
"""Group of a NUMA node with memory in use that may be single or belong to a set of several."""


def possible_groups(policy: NUMAPolicy, kinds: Sequence[Pool], shape: tuple[int, int]) -> Bools:
    """Which masks may be groups of several NUMA nodes (bool [M, n], `shape`) with the current memory in use.

    kinds: every kind of memory of the nodes.
    """
    several = np.broadcast_to(widths(shape[0].bit_length() - 1)[:, None] > 1, shape)
    if policy is NUMAPolicy.SINGLE_NUMA_NODE:
        return np.zeros(shape, dtype=np.bool_)
    if policy is NUMAPolicy.RESTRICTED and kinds:
        return several & _needed_their_width(kinds)
    return several


def published_groups(kinds: Sequence[Pool], possible: Bools) -> npt.NDArray[np.int64]:
    """The group of each NUMA node (int64 [z, n]) as a mask, UNASSIGNED or UNKNOWN_GROUP. possible: bool [M, n]."""
    z = len(kinds[0].capacity)
    groups = np.zeros_like(kinds[0].capacity)
    for position in range(z):
        in_use = np.logical_or.reduce([pool.free[position] < pool.capacity[position] for pool in kinds])
        uncertain = possible[members(z)[:, position]].any(axis=0)
        groups[position] = np.where(in_use, np.where(uncertain, UNKNOWN_GROUP, 1 << position), UNASSIGNED)
    return groups


def masks_by_groups(groups: npt.NDArray[np.int64], may_be_group: Bools, grouped: Bools | None = None) -> Bools:
    """Masks that keep single-node and multi-node allocations of memory apart (bool [M, n]).

    groups: int64 [z, n], the mask of the memory group each NUMA node is in. may_be_group: bool [M, n], whether a
    group whose members are unknown may be this mask. grouped: bool [z, n], NUMA nodes of unknown group that are
    certainly in one of several.
    """
    z = len(groups)
    allowed = subsets_of(groups == UNASSIGNED)
    allowed |= subsets_of(groups <= UNASSIGNED) & may_be_group
    for position in range(z):
        alone = 1 << position
        group = groups[position]
        allowed[alone] = (group == alone) | (group <= UNASSIGNED)
        if grouped is not None:
            allowed[alone] &= ~grouped[position] | (group != UNKNOWN_GROUP)
        together = np.flatnonzero(group & ~alone & -(group > UNASSIGNED).astype(np.int64))
        allowed[group[together], together] |= _agree(groups[:, together], group[together])
    return allowed


def _agree(groups: npt.NDArray[np.int64], group: npt.NDArray[np.int64]) -> Bools:
    """Whether every NUMA node of a group (int64 [n]) is in it or in none (bool [n]). groups: int64 [z, n]."""
    inside = (group >> np.arange(len(groups))[:, None]) & 1 == 1
    agree: Bools = np.asarray((~inside | (groups == group) | (groups == UNASSIGNED)).all(axis=0))
    return agree


def _needed_their_width(pools: Sequence[Pool]) -> Bools:
    """Whether the memory in use in a mask would not have fitted a narrower one (bool [M, n]).

    If kinds of memory are distributed over the NUMA nodes in different proportions, this is left open (True).
    """
    z, n = pools[0].capacity.shape
    width = widths(z)
    needed = np.zeros((1 << z, n), dtype=np.bool_)
    ranks = []
    for pool in pools:
        most = np.zeros((z + 1, n), dtype=np.int64)
        np.cumsum(-np.sort(-pool.capacity, axis=0), axis=0, out=most[1:])
        in_use = subset_sums(np.maximum(pool.capacity - pool.free, 0))
        needed |= in_use > most[np.maximum(width - 1, 0)]
        ranks.append(pool.capacity)
    return needed | _differently_spread(ranks)


def _differently_spread(capacities: Sequence[Amounts]) -> Bools:
    """Whether some NUMA node has more of one kind and less of another than some other one (bool [n])."""
    z, n = capacities[0].shape
    different = np.zeros(n, dtype=np.bool_)
    for left in range(z):
        for right in range(left):
            more = [capacity[left] > capacity[right] for capacity in capacities]
            less = [capacity[left] < capacity[right] for capacity in capacities]
            different |= np.logical_or.reduce(more) & np.logical_or.reduce(less)
    return different


def grouped_by_hints(snapshot: Snapshot, nodes: Nodes) -> Bools | None:
    """NUMA nodes of some nodes that are certainly in a group of several, by the hints of pods (bool [z, n]).

    None: no pod shows one. Of pods that only a reservation shows it is not known how their containers share the memory.
    So two or three NUMA nodes are one group (four may be two) if more of some kind is in use on them than any one has.
    """
    node_arrays = snapshot.node_arrays
    residents = snapshot.multi_residents
    if not np.bitwise_or.reduce(residents, axis=None):
        return None
    group = residents[:, nodes] > node_arrays.ungrouped_residents[:, nodes]
    count = group.sum(axis=0)
    group &= (count > 1) & (count < 4)
    if not group.any():
        return None
    more = np.zeros(len(nodes), dtype=np.bool_)
    for row, name in enumerate(node_arrays.resources):
        if is_memory(name):
            capacity = np.maximum(node_arrays.zone_allocatable[row][:, nodes], 0)
            in_use = np.maximum(capacity - np.maximum(snapshot.free(row)[:, nodes], 0), 0)
            more |= (in_use * group).sum(axis=0) > capacity.max(axis=0)
    grouped: Bools = group & more
    return grouped if grouped.any() else None
