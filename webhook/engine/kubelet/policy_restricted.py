"""Admission by a restricted kubelet of a container that no single NUMA node holds: by the sets that it could prefer.

1. restricted admits only if all managers prefer the same set. Each prefers sets exactly as wide as the *capacity*
   requires. So if these widths differ, the pod is rejected; likewise if they are one, because single NUMA nodes have
   already been checked (webhook.engine.kubelet.policy_single_numa_node).
2. Memory over k > 1 NUMA nodes needs a group. An existing group's pods needed its width: more is in use in it than the
   k - 1 largest NUMA nodes have, so less is left than the k-th largest has. A pod that needs several NUMA nodes
   requests more than the largest has. So it never joins a group: it needs NUMA nodes with no memory in use.
3. The lowest set of the width with enough of everything is the affinity, and all of it is used: with one NUMA node
   less the capacity would not suffice. Most nodes without such a set are ruled out by what the freest NUMA nodes have
   together. For few nodes all sets are summed at once, for many one set after the other, with fewer nodes each time.

Other cases are left open: for webhook.engine.kubelet.admission. Without it a decision over 5,000 nodes of
8 NUMA nodes takes 73 to 125 times as long (make bench, restricted).
Source: kubernetes pkg/kubelet/cm/{cpumanager,devicemanager,memorymanager}, topologymanager/policy_restricted.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools, Nodes, amounts_at, selected
from webhook.engine.kubelet.bitmask import as_mask, counts, widths
from webhook.engine.kubelet.demand import Share
from webhook.engine.kubelet.hints import Row, rows_of, unsure
from webhook.engine.kubelet.policy_groups import PolicyGroup
from webhook.engine.numa_fit import Masks
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.resources import is_memory

# Most nodes that hold nothing are excluded by the second round.
_ROUNDS: Final = 2
# From here on sorting is faster.
_MOST_INSERTED: Final = 4
# Sets times nodes: up to here the calls of numpy cost more than sums that could be left out.
_AT_ONCE: Final = 1 << 16
# Up to here the sums cost less than the calls that find out which could be left out.
_FEW: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class Preferred:
    """The result for n nodes."""

    open: Bools
    """bool [n]: this method can neither find nor exclude a preferred hint."""
    mask: Masks
    """int64 [n]: the lowest set of NUMA nodes that every manager prefers; 0 = none."""


def preferred_sets(snapshot: Snapshot, share: Share, policy_group: PolicyGroup) -> Preferred:
    """The preferred sets for a share on nodes with policy restricted, where no single NUMA node holds it."""
    rows, nodes = rows_of(snapshot, share, policy_group.nodes), policy_group.nodes
    left_open = unsure(snapshot, share, rows, policy_group)
    pieces = [one.narrowest() for one in rows if not one.memory]
    kinds = [one for one in rows if one.memory]
    if len(kinds) > 1:
        # For several kinds together it is only clear whether one NUMA node would suffice.
        together = np.logical_and.reduce([one.capacity >= one.amount for one in kinds]).any(axis=0)
        left_open |= ~together & np.logical_and.reduce([width > 1 for width in pieces] or [~together])
        pieces.append(np.where(together, 1, 0))
    elif kinds:
        pieces.append(kinds[0].narrowest())
    width = pieces[0]
    agreed = np.logical_and.reduce([other == width for other in pieces]) & (width > 1)
    if kinds:
        left_open |= agreed & _others_in_use(snapshot, share, nodes)
    mask = np.zeros(len(nodes), dtype=np.int64)
    (left,) = (agreed & ~left_open).nonzero()
    for wanted in np.flatnonzero(np.bincount(width[left])).tolist():
        here = left[width[left] == wanted]
        mask[here] = lowest_sets(rows, wanted, here, grouped=True)
    return Preferred(left_open, mask)


def _others_in_use(snapshot: Snapshot, share: Share, nodes: Nodes) -> Bools:
    """Nodes with other kinds of memory than the share's, in use or unevenly distributed (bool [n]).

    These may have formed groups, too.
    """
    node_arrays = snapshot.node_arrays
    found = np.zeros(len(nodes), dtype=np.bool_)
    kinds = [row for row, name in enumerate(node_arrays.resources) if is_memory(name)]
    listed = [row for row in kinds if np.count_nonzero(node_arrays.listed[row].take(nodes))]
    for row in listed if len(listed) > 1 else ():
        capacity = amounts_at(node_arrays.zone_allocatable[row], nodes)
        found |= (capacity != capacity[0]).any(axis=0)
        if row not in share.memory:
            found |= (amounts_at(snapshot.free(row), nodes) != capacity).any(axis=0)
    return found


def lowest_sets(rows: Sequence[Row], width: int, nodes: Nodes, *, grouped: bool) -> Masks:
    """int64 [n]: the lowest set of this width with enough of every row, for some nodes (indexes); 0 = none."""
    z, n = rows[0].free.shape
    mask = np.zeros(n, dtype=np.int64)
    left = nodes
    untouched = np.full(n, -1, dtype=np.int64)
    for row in rows:
        if row.memory and grouped:
            unused = selected(row.free, left) == selected(row.capacity, left)
            (several,) = (counts(unused) >= width).nonzero()
            left = left.take(several)
            untouched[left] &= as_mask(unused.take(several, axis=1))
    sets = len(lowest_first(z, width))
    if not sets:
        return mask.take(nodes)  # the node has fewer NUMA nodes
    if len(left) * sets > _FEW:
        useful = np.logical_and.reduce([_may_belong(selected(row.free, left), row.amount, width) for row in rows])
        (several,) = (counts(useful) >= width).nonzero()
        left = left.take(several)
        if len(left) * sets > _AT_ONCE:
            left = _may_hold(rows, width, left, useful.take(several, axis=1))
    if not len(left):
        return mask.take(nodes)
    if len(left) * sets <= _AT_ONCE:
        mask[left] = _lowest_at_once(rows, width, left, untouched if grouped else None)
        return mask.take(nodes)
    search = [_Search(row.free.take(left, axis=1), row.amount) for row in rows]
    found = np.zeros(len(left), dtype=np.bool_)
    for candidate in lowest_first(z, width):
        holds = ~found
        for row_search in search:
            holds &= row_search.holds(candidate)
        if grouped:
            holds &= (untouched[left] & candidate) == candidate
        mask[left[holds]] = candidate
        found |= holds
        # Nodes drop out once found, many at a time: selecting the others costs as much as checking a few more sets.
        remaining = len(left) - int(np.count_nonzero(found))
        if not remaining:
            break
        if remaining < len(left) // 2:
            (keep,) = (~found).nonzero()
            left, found = left[keep], found[keep]
            search = [row_search.at(keep) for row_search in search]
    return mask.take(nodes)


def _lowest_at_once(rows: Sequence[Row], width: int, nodes: Nodes, untouched: Masks | None) -> Masks:
    """The same for some nodes (indexes), with all sets of the width at once. untouched: None = all may be used."""
    sets, positions = _set_positions(len(rows[0].free), width)
    holds = np.ones((len(sets), len(nodes)), dtype=np.bool_)
    for row in rows:
        free = row.free.take(nodes, axis=1)
        total = free[positions[0]]
        for position in positions[1:]:
            total += free[position]
        holds &= total >= row.amount
    if untouched is not None:
        holds &= (untouched[nodes] & sets[:, None]) == sets[:, None]
    lowest: Masks = np.where(holds.any(axis=0), sets[holds.argmax(axis=0)], 0)
    return lowest


def _may_hold(rows: Sequence[Row], width: int, nodes: Nodes, useful: Bools) -> Nodes:
    """Those of some nodes (indexes) where a set of this width may have enough of every row; certainly not elsewhere.

    A NUMA node is of use if it has enough of every row together with the freest others. The second round considers only
    those that the first one found useful. useful: bool [z, n]: the NUMA nodes that may be. Modified.
    """
    for _ in range(_ROUNDS):
        for row in rows:
            free = np.where(useful, row.free.take(nodes, axis=1), 0)
            *freest, last = _largest(free, width)
            others = sum(freest, start=np.zeros(len(nodes), dtype=np.int64))
            enough = (free >= row.amount - others) & (last >= row.amount - others)
            useful &= enough
            (left,) = (counts(useful) >= width).nonzero()
            if len(left) < len(nodes):
                nodes, useful = nodes.take(left), useful.take(left, axis=1)
    return nodes


def _may_belong(free: Amounts, amount: int, width: int) -> Bools:
    """Whether each NUMA node (bool [z, n]) may be in a set with enough if the others have as much as the freest one."""
    others = width - 1
    # As much as makes the others suffice by themselves is as good as more, and cannot overflow.
    most = np.minimum(free.max(axis=0), amount // max(others, 1) + 1)
    belongs: Bools = free >= amount - others * most
    return belongs


def _largest(amounts: Amounts, count: int) -> list[Amounts]:
    """The largest amounts (int64 [z, n], 0 or more) of each node, in descending order: int64 [n] each.

    Insertion, one NUMA node after the other: for few, it takes a third of the time of sorting all.
    """
    if count > _MOST_INSERTED:
        return list(np.sort(amounts, axis=0)[::-1][:count])
    largest = [np.zeros(amounts.shape[1], dtype=np.int64) for _ in range(count)]
    for amount in amounts:
        rest = amount
        for each in largest:
            smaller = np.minimum(each, rest)
            np.maximum(each, rest, out=each)
            rest = smaller
    return largest


class _Search:
    """Sums of one resource over sets in ascending order: each adds its highest NUMA node to a known sum."""

    def __init__(self, free: Amounts, amount: int) -> None:
        self._free = free
        self._amount = amount
        self._sums: dict[int, npt.NDArray[np.int64]] = {}

    def holds(self, candidate: int) -> Bools:
        """Whether a set has enough (bool [n])."""
        enough: Bools = self._sum(candidate) >= self._amount
        return enough

    def at(self, where: Nodes) -> "_Search":
        """The same for some of the nodes."""
        return _Search(self._free.take(where, axis=1), self._amount)

    def _sum(self, members: int) -> npt.NDArray[np.int64]:
        highest = members.bit_length() - 1
        rest = members - (1 << highest)
        here: npt.NDArray[np.int64] = self._free[highest]
        if not rest:
            return here
        if rest not in self._sums:
            self._sums[rest] = self._sum(rest)
        return self._sums[rest] + here


@lru_cache(maxsize=256)
def lowest_first(z: int, width: int) -> tuple[int, ...]:
    """The masks of a width over z positions, ascending."""
    return tuple(np.flatnonzero(widths(z) == width).tolist())


@lru_cache(maxsize=256)
def _set_positions(z: int, width: int) -> tuple[Masks, npt.NDArray[np.intp]]:
    """The same as int64 [s], and the positions of the NUMA nodes of each: int [width, s]."""
    sets = np.array(lowest_first(z, width), dtype=np.int64)
    positions = [[position for position in range(z) if one >> position & 1] for one in sets.tolist()]
    return sets, np.array(positions, dtype=np.intp).T.copy()
