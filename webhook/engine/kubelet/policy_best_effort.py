"""The NUMA nodes that a best-effort kubelet uses for one container that fits, but in no single NUMA node.

1. The affinity. A set is preferred if every manager prefers it, that is, if it is exactly as wide as the capacity
   requires for each: webhook.engine.kubelet.policy_restricted. Memory groups exclude no set for the first container.
   Otherwise the merger keeps the hint whose width is nearest to t, the largest of the managers' narrowest widths by
   free amounts; at equal width the lowest mask. A hint is an intersection of sufficient sets, one for each resource,
   and a superset of a sufficient set is sufficient, too. So the lowest t NUMA nodes are the affinity as soon as each
   other NUMA node can be left out by some resource that has enough without all that it leaves out.
2. If the affinity has enough of everything, the container uses all of it: no resource whose narrowest width is t
   needs less. Memory takes the whole affinity anyway.
3. Otherwise devices and CPUs take what the affinity has, and the rest outside. Memory widens the affinity to the
   narrowest superset with enough, the lowest of those.
4. Before all that: a lower bound of each resource's width is its amount divided by the freest NUMA node's amount. If
   that many of the lowest NUMA nodes have enough of everything, they are the affinity, and 2. holds. If they have
   enough of something only, they are the affinity, too, and more are used, unless a set of exactly that width is
   preferred. If one may be, it is searched; if none is found, more are used. If each resource has enough in one NUMA
   node, but not all in the same one, the affinity is one, and at least two are used. So most nodes can be ruled out as
   best nodes without a closer look.

Other cases are left open: for webhook.engine.kubelet.admission. At 5,000 nodes of 8 NUMA nodes a decision takes
2.6 to 5.7 times as long without phase 4, and up to 1.9 times without phases 1 to 3 (make bench, best-effort).
Source: kubernetes pkg/kubelet/cm/topologymanager/policy.go (HintMerger), {cpumanager,devicemanager,memorymanager}.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Bytes
from webhook.engine.kubelet.bitmask import as_mask
from webhook.engine.kubelet.container_rows import Row, rows_of, unsure
from webhook.engine.kubelet.demand import Share
from webhook.engine.kubelet.hints import narrowest_width
from webhook.engine.kubelet.policy_groups import PolicyGroup
from webhook.engine.kubelet.policy_restricted import lowest_sets
from webhook.engine.kubelet.pools import take_cpus, take_in_order
from webhook.engine.numa_fit import Masks
from webhook.engine.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Lowest:
    """The cheap results for n nodes."""

    at_least: Bytes
    """uint8 [n]: at least this many NUMA nodes are used."""
    mask: Masks
    """int64 [n]: those used; 0 = not known."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What n nodes give the container."""

    open: Bools
    """bool [n]: this method does not decide."""
    mask: Masks
    """int64 [n]: the NUMA nodes used; memory uses the whole of its set."""
    taken: tuple[Amounts, ...]
    """int64 [z, n] for each of the share's amounts."""


def lowest(snapshot: Snapshot, share: Share, policy_group: PolicyGroup) -> Lowest:
    """Phase 4, for nodes that hold the share over two NUMA nodes or more."""
    rows = rows_of(snapshot, share, policy_group.nodes)
    needed = np.ones(len(policy_group.nodes), dtype=np.int64)
    for row in rows:
        np.maximum(needed, -(-row.amount // np.maximum(row.free.max(axis=0), 1)), out=needed)
    least = np.maximum(needed, 2)
    uncertain = _uncertain(snapshot, share, rows, policy_group)
    # No conclusion for resources that only some NUMA nodes list or that are counted twice.
    least[uncertain] = 2
    mask = np.zeros(len(least), dtype=np.int64)
    wider = np.zeros(len(least), dtype=np.bool_)
    for width in np.flatnonzero(np.bincount(least)).tolist():
        enough = [row.free[:width].sum(axis=0) >= row.amount for row in rows]
        here = (least == width) & ~uncertain
        mask[here & np.logical_and.reduce(enough)] = (1 << width) - 1
        wider |= here & (needed == width) & np.logical_or.reduce(enough)
    may_prefer = _may_prefer(rows, least) & (mask == 0) & ~uncertain
    if _one_memory(rows):
        _prefer(rows, least, may_prefer, mask)
        wider |= may_prefer
    else:
        wider &= ~may_prefer
    wider &= mask == 0
    return Lowest((least + wider).astype(np.uint8), mask)


def spread(snapshot: Snapshot, share: Share, policy_group: PolicyGroup) -> Spread:
    """Phases 1 to 3, for nodes that hold the share over two NUMA nodes or more."""
    rows = rows_of(snapshot, share, policy_group.nodes)
    positions = np.arange(len(rows[0].free))[:, None]
    width = narrowest_width([(row.free, row.amount) for row in rows])
    preferred = np.zeros(len(width), dtype=np.int64)
    left_open = _uncertain(snapshot, share, rows, policy_group)
    if _one_memory(rows):
        _prefer(rows, width, _may_prefer(rows, width) & ~left_open, preferred)
    else:
        left_open[:] = True
    inside = np.where(preferred > 0, preferred >> positions & 1 == 1, positions < width)
    left_open |= (preferred == 0) & ~_reached(rows, inside)
    taken, mask = [], np.zeros(len(width), dtype=np.int64)
    for row, is_device in zip(rows, [number in share.devices for number in share.amounts], strict=True):
        if row.memory:
            within = _widened(row, inside)
            mask |= as_mask(within)
            taken.append(take_in_order(np.where(within, row.free, 0), _needed(row), _ascending(row)))
        else:
            taken.append(_near_and_far(row, inside, is_device=is_device))
            mask |= as_mask(taken[-1] > 0)
    return Spread(left_open, mask, tuple(taken))


def _uncertain(snapshot: Snapshot, share: Share, rows: Sequence[Row], policy_group: PolicyGroup) -> Bools:
    """Nodes (bool [n]) where more than the free amounts decides."""
    if policy_group.closest:
        return np.ones(len(policy_group.nodes), dtype=np.bool_)
    uncertain = unsure(snapshot, share, rows, policy_group)
    exists = snapshot.node_arrays.zone_ids.take(policy_group.nodes, axis=1) >= 0
    for row in rows:
        if not row.memory:
            # NUMA nodes without any CPU or device of the kind are in no hint for it.
            uncertain |= np.logical_or.reduce((row.capacity == 0) & exists, axis=0)
    return uncertain


def _may_prefer(rows: Sequence[Row], width: Masks) -> Bools:
    """Whether a set of this width (int64 [n]) may be preferred (bool [n])."""
    several = not _one_memory(rows)
    possible = np.ones(len(width), dtype=np.bool_)
    for row in rows:
        narrowest = row.narrowest()
        # Several kinds of memory together may need more NUMA nodes than each of them.
        possible &= narrowest <= width if row.memory and several else narrowest == width
    return possible


def _prefer(rows: Sequence[Row], width: Masks, where: Bools, mask: Masks) -> None:
    """Write the lowest set of its width (int64 [n]) with enough of everything into the mask of nodes (bool [n])."""
    (search,) = where.nonzero()
    for wanted in np.unique(width[search]).tolist():
        here = search[width[search] == wanted]
        mask[here] = lowest_sets([row.at(here) for row in rows], wanted, grouped=False)


def _one_memory(rows: Sequence[Row]) -> bool:
    """Whether there is at most one kind of memory: for several, only all sets show what they need together."""
    return sum(row.memory for row in rows) < 2


def _reached(rows: Sequence[Row], inside: Bools) -> Bools:
    """Whether `inside` (bool [z, n]) is certainly an intersection of sufficient sets, one for each row (bool [n]).

    One after the other, each NUMA node outside is left out by the row that can best spare it.
    """
    spare = [row.free.sum(axis=0) - row.amount for row in rows]
    cost = [np.zeros_like(each) for each in spare]
    for position in range(len(inside)):
        then = [before + row.free[position] for before, row in zip(cost, rows, strict=True)]
        policy_groups = np.array([each / np.maximum(most, 1) for each, most in zip(then, spare, strict=True)])
        cheapest = policy_groups.argmin(axis=0)
        for number, before in enumerate(cost):
            mine = ~inside[position] & (cheapest == number)
            cost[number] = np.where(mine, then[number], before)
    reached: Bools = np.logical_and.reduce([each <= most for each, most in zip(cost, spare, strict=True)])
    for row in rows:
        reached |= (row.free * inside).sum(axis=0) >= row.amount
    return reached


def _near_and_far(row: Row, inside: Bools, *, is_device: bool) -> Amounts:
    """int64 [z, n]: devices or CPUs taken: inside the affinity (bool [z, n]) first, then outside."""
    needed = _needed(row)
    if is_device:
        near = take_in_order(np.where(inside, row.free, 0), needed, _ascending(row))
        return near + take_in_order(row.free - near, needed - near.sum(axis=0), _ascending(row))
    near = take_cpus(row.free, row.capacity, inside, needed)
    return near + take_cpus(row.free - near, row.capacity, np.ones_like(inside), needed - near.sum(axis=0))


def _widened(row: Row, inside: Bools) -> Bools:
    """`inside` (bool [z, n]) with the fewest, and then the lowest, additional NUMA nodes that suffice.

    From the highest NUMA node down: it is needed if the lower ones do not suffice with one less.
    """
    outside = np.where(inside, 0, row.free)
    missing = row.amount - (row.free * inside).sum(axis=0)
    (where,) = (missing > 0).nonzero()
    if not len(where):
        return inside
    outside, missing = outside.take(where, axis=1), missing.take(where)
    fewest = narrowest_width([(outside, missing)])
    added = np.zeros_like(outside, dtype=np.bool_)
    for position in reversed(range(len(outside))):
        lower = np.zeros((position + 1, len(where)), dtype=np.int64)
        np.cumsum(-np.sort(-outside[:position], axis=0), axis=0, out=lower[1:])
        most = np.take_along_axis(lower, np.minimum(fewest, position)[None], axis=0)[0]
        needs = most < missing
        added[position] = needs
        missing -= np.where(needs, outside[position], 0)
        fewest -= needs
    widened = inside.copy()
    widened[:, where] |= added
    return widened


def _needed(row: Row) -> Amounts:
    return np.full(row.free.shape[1], row.amount, dtype=np.int64)


def _ascending(row: Row) -> Masks:
    order: Masks = np.broadcast_to(np.arange(len(row.free))[:, None], row.free.shape)
    return order
