"""Admission by a restricted kubelet of what no single NUMA node holds: by the sets of NUMA nodes it could prefer.

1. restricted admits only where all managers prefer the same set. Each prefers sets just as wide as the *capacity*
   makes necessary. So where these widths differ the pod is refused, and where they are one, too: single NUMA nodes have
   been looked at (webhook.engine.kubelet_zones).
2. Memory over k > 1 NUMA nodes needs a group. One that exists came about because its pods needed its width: more is in
   use in it than the k - 1 largest NUMA nodes have, which leaves less than the k-th largest has. A pod that needs
   several NUMA nodes asks for more than the largest has. So it never joins: it needs NUMA nodes with no memory in use.
3. The lowest set of the width with enough of everything is the affinity, and all of it is used: with one NUMA node
   less the capacity would not do.

What this does not cover is left open: for webhook.engine.kubelet_masks.
Source: kubernetes pkg/kubelet/cm/{cpumanager,devicemanager,memorymanager}, topologymanager/policy_restricted.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools, Nodes
from webhook.engine.hints import narrowest_width
from webhook.engine.kubelet_demand import Share, is_memory
from webhook.engine.kubelet_machines import devices_shared
from webhook.engine.kubelet_parts import Part
from webhook.engine.masks import as_mask, widths
from webhook.engine.view import View

Masks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Preferred:
    """What is known of n nodes."""

    open: Bools
    """bool [n]: a preferred hint cannot be found or ruled out this way."""
    mask: Masks
    """int64 [n]: the lowest set of NUMA nodes that every manager prefers; 0 = none."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One resource of the share on n nodes; amounts int64 [z, n], 0 where a NUMA node does not list it."""

    amount: int
    capacity: Amounts
    free: Amounts
    memory: bool

    def at(self, where: Nodes) -> "_Row":
        return _Row(self.amount, self.capacity.take(where, axis=1), self.free.take(where, axis=1), self.memory)


def preferred_sets(view: View, share: Share, part: Part) -> Preferred:
    """The sets preferred for a share on nodes with policy restricted, none of whose NUMA nodes holds it alone."""
    snapshot, nodes = view.snapshot, part.nodes
    rows = [_row(view, row, amount, nodes) for row, amount in share.amounts.items()]
    unsure = np.zeros(len(nodes), dtype=np.bool_)
    for row, one in zip(share.amounts, rows, strict=True):
        unsure |= ~snapshot.listed[row].take(nodes) | (one.free > one.capacity).any(axis=0)
        if one.amount == 0:
            unsure[:] = True
        elif row in share.devices:
            unsure |= devices_shared(view, row, nodes)
    pieces = [_narrowest(one) for one in rows if not one.memory]
    kinds = [one for one in rows if one.memory]
    if len(kinds) > 1:
        # Of several kinds together it is only clear whether one NUMA node would do.
        together = np.logical_and.reduce([one.capacity >= one.amount for one in kinds]).any(axis=0)
        unsure |= ~together & np.logical_and.reduce([width > 1 for width in pieces] or [~together])
        pieces.append(np.where(together, 1, 0))
    elif kinds:
        pieces.append(_narrowest(kinds[0]))
    width = pieces[0]
    agreed = np.logical_and.reduce([other == width for other in pieces]) & (width > 1)
    if kinds and not part.ours:
        unsure |= agreed & _others_in_use(view, share, nodes)
    mask = np.zeros(len(nodes), dtype=np.int64)
    (left,) = (agreed & ~unsure).nonzero()
    for wanted in np.unique(width[left]).tolist():
        here = left[width[left] == wanted]
        mask[here] = _lowest_sets([one.at(here) for one in rows], wanted, grouped=not part.ours)
    return Preferred(unsure, mask)


def _row(view: View, row: int, amount: int, nodes: Nodes) -> _Row:
    snapshot = view.snapshot
    memory = is_memory(snapshot.resources.names[row])
    # Reserved CPUs count for how narrow a set could be, memory that the system keeps does not.
    capacity = (snapshot.zone_allocatable if memory else snapshot.capacity)[row]
    return _Row(amount, _at(capacity, nodes), _at(view.free(row), nodes), memory)


def _at(plane: Amounts, nodes: Nodes) -> Amounts:
    amounts = plane if len(nodes) == plane.shape[1] else plane.take(nodes, axis=1)
    return np.maximum(amounts, 0)


def _narrowest(row: _Row) -> Masks:
    """int64 [n]: the fewest NUMA nodes with enough capacity; beyond all there are where these are too few."""
    capacity = row.capacity
    most = capacity.max(axis=0)
    width: Masks = -(-row.amount // np.maximum(most, 1))
    # Where all NUMA nodes that have any have the same, that is it.
    (uneven,) = (capacity.sum(axis=0) != most * np.count_nonzero(capacity, axis=0)).nonzero()
    if len(uneven):
        width[uneven] = narrowest_width([(capacity[:, uneven], row.amount)])
    return width


def _others_in_use(view: View, share: Share, nodes: Nodes) -> Bools:
    """Nodes with kinds of memory that the share does not ask for, in use or unevenly spread (bool [n]).

    These may have made groups, too.
    """
    snapshot = view.snapshot
    found = np.zeros(len(nodes), dtype=np.bool_)
    kinds = [row for row, name in enumerate(snapshot.resources) if is_memory(name)]
    listed = [row for row in kinds if np.count_nonzero(snapshot.listed[row].take(nodes))]
    for row in listed if len(listed) > 1 else ():
        capacity = _at(snapshot.zone_allocatable[row], nodes)
        found |= (capacity != capacity[0]).any(axis=0)
        if row not in share.memory:
            found |= (_at(view.free(row), nodes) != capacity).any(axis=0)
    return found


def _lowest_sets(rows: Sequence[_Row], width: int, *, grouped: bool) -> Masks:
    """int64 [n]: the lowest set of so many NUMA nodes with enough of every row; 0 = none. Nodes drop out once found."""
    z, n = rows[0].free.shape
    mask = np.zeros(n, dtype=np.int64)
    possible = np.ones(n, dtype=np.bool_)
    untouched = np.full(n, -1, dtype=np.int64)
    for row in rows:
        if row.memory and grouped:
            unused = row.free == row.capacity
            untouched &= as_mask(unused)
            possible &= np.count_nonzero(unused, axis=0) >= width
    (left,) = possible.nonzero()
    rows = [row.at(left) for row in rows]
    for row in rows:
        freest = -np.sort(-row.free.T, axis=1)[:, :width]
        possible[left] &= freest.sum(axis=1) >= row.amount
    left, rows = _kept(left, rows, possible[left])
    for candidate, members in _sets(z, width):
        if not len(left):
            break
        holds = (untouched[left] & candidate) == candidate
        for row in rows:
            holds &= row.free[members].sum(axis=0) >= row.amount
        mask[left[holds]] = candidate
        left, rows = _kept(left, rows, ~holds)
    return mask


def _kept(left: Nodes, rows: Sequence[_Row], keep: Bools) -> tuple[Nodes, list[_Row]]:
    if keep.all():
        return left, list(rows)
    (where,) = keep.nonzero()
    return left[where], [row.at(where) for row in rows]


@lru_cache(maxsize=256)
def _sets(z: int, width: int) -> tuple[tuple[int, list[int]], ...]:
    """The masks of a width over z positions, ascending, each with its positions."""
    masks = np.flatnonzero(widths(z) == width).tolist()
    return tuple((mask, [position for position in range(z) if mask >> position & 1]) for mask in masks)
