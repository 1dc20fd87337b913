"""The NUMA nodes that a best-effort kubelet uses for one container that fits, but in no single NUMA node.

1. The affinity. A set is preferred if every manager prefers it, that is, if it is exactly as wide as the capacity
   requires for each: webhook.engine.kubelet.policy_restricted. Memory groups exclude no set for the first container.
   Otherwise the merger keeps the hint whose width is nearest to t, the largest of the managers' narrowest widths by
   free amounts; at equal width the lowest mask. A hint is an intersection of sufficient sets, one for each resource,
   and a superset of a sufficient set is sufficient, too. So the lowest t NUMA nodes are the affinity as soon as each
   other NUMA node can be left out by some resource that has enough without all that it leaves out. For two resources
   all ways to divide the others between them are tried, for one set of t NUMA nodes after the other.
2. If the affinity has enough of everything, the container uses all of it: no resource whose narrowest width is t
   needs less. Memory takes the whole affinity anyway.
3. Otherwise devices and CPUs take what the affinity has, and the rest outside. Memory widens the affinity to the
   narrowest superset with enough, the lowest of those.
4. Before all that: a lower bound of each resource's width is its amount divided by the freest NUMA node's amount. If
   that many of the lowest NUMA nodes have enough of everything, they are the affinity, and 2. holds. Otherwise, if the
   merger reaches them, memory takes all of them, and something takes more, unless a set of exactly that width is
   preferred. If one may be, it is searched; if none is found, more are used. If each resource has enough in one NUMA
   node, but not all in the same one, the affinity is one, and at least two are used. So most nodes can be ruled out as
   best nodes without a closer look. The narrowest nodes come first; once enough are known, the others keep their bound.

Other cases are left open: for webhook.engine.kubelet.admission. At 5,000 nodes of 8 NUMA nodes a decision takes
7 to 14 times as long without phase 4, and with 4 NUMA nodes 1.8 times without phases 1 to 3 (make bench, best-effort).
Source: kubernetes pkg/kubelet/cm/topologymanager/policy.go (HintMerger), {cpumanager,devicemanager,memorymanager}.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Bytes, all_nodes
from webhook.engine.kubelet.bitmask import as_mask, subset_sums
from webhook.engine.kubelet.demand import Share
from webhook.engine.kubelet.hints import Row, narrowest_width, rows_of, unsure
from webhook.engine.kubelet.policy_groups import PolicyGroup
from webhook.engine.kubelet.policy_restricted import lowest_first, lowest_sets
from webhook.engine.kubelet.pools import take_ascending, take_cpus
from webhook.engine.numa_fit import Masks
from webhook.engine.snapshot.snapshot import Snapshot

# Sets of NUMA nodes times divisions of the others between two resources. More are left open.
_MOST_DIVISIONS: Final = 1 << 10
# Twice as many as the best nodes that a decision names by default. If so many are known, wider ones seldom matter.
_ENOUGH_KNOWN: Final = 128


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
    nodes, n = policy_group.nodes, snapshot.node_arrays.n
    if not n // 2 < len(nodes) < n:
        return _lowest(snapshot, share, policy_group)
    # Selecting most nodes costs more than computing all.
    of_all = _lowest(snapshot, share, policy_group.of(all_nodes(n)))
    return Lowest(of_all.at_least.take(nodes), of_all.mask.take(nodes))


def _lowest(snapshot: Snapshot, share: Share, policy_group: PolicyGroup) -> Lowest:
    rows = rows_of(snapshot, share, policy_group.nodes)
    needed = np.ones(len(policy_group.nodes), dtype=np.int64)
    for row in rows:
        np.maximum(needed, -(-row.amount // np.maximum(row.free.max(axis=0), 1)), out=needed)
    # A full node needs more than there are: as many as the request has bytes, and the widths are counted below.
    np.minimum(needed, len(rows[0].free) + 1, out=needed)
    least = np.maximum(needed, 2)
    uncertain = _uncertain(snapshot, share, rows, policy_group)
    # No conclusion for resources that only some NUMA nodes list or that are counted twice.
    least[uncertain] = 2
    mask = np.zeros(len(least), dtype=np.int64)
    wider = np.zeros(len(least), dtype=np.bool_)
    may_prefer = _may_prefer(rows, least) & ~uncertain
    one_memory, whole = _one_memory(rows), any(row.memory for row in rows)
    # Of each row, what the lowest NUMA nodes have together.
    sums = [np.zeros(len(least), dtype=np.int64) for _ in rows]
    widths = np.bincount(least)
    for width in range(1, min(len(widths), len(rows[0].free) + 1)):
        for total, row in zip(sums, rows, strict=True):
            np.add(total, row.free[width - 1], out=total)
        if not widths[width]:
            continue
        here = (least == width) & ~uncertain
        enough = [total >= row.amount for total, row in zip(sums, rows, strict=True)]
        # Where two are used beside an affinity of one, the second may be any.
        exact = here & (needed == width)
        np.putmask(mask, np.logical_and.reduce(enough) & exact, (1 << width) - 1)
        here &= mask == 0
        preferable = here & may_prefer
        if one_memory:
            (search,) = preferable.nonzero()
            mask[search] = lowest_sets(rows, width, search, grouped=False)
            wider |= preferable
        if whole:
            exact &= here & ~preferable
            some = np.logical_or.reduce(enough) & exact
            wider |= some
            (others,) = (exact & ~some).nonzero()
            if len(others) and one_memory:
                inside = np.repeat(np.arange(len(rows[0].free))[:, None] < width, len(others), axis=1)
                wider[others] = _reached([row.at(others) for row in rows], inside)
        if np.count_nonzero(mask) >= _ENOUGH_KNOWN:
            break
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
    (unreached,) = ((preferred == 0) & ~left_open & ~_reached(rows, inside)).nonzero()
    if len(unreached):
        affinity = _affinity([row.at(unreached) for row in rows], width[unreached])
        inside[:, unreached] = affinity >> positions & 1 == 1
        left_open[unreached[affinity == 0]] = True
    taken, mask = [], np.zeros(len(width), dtype=np.int64)
    for row, is_device in zip(rows, [number in share.devices for number in share.amounts], strict=True):
        if row.memory:
            within = _widened(row, inside)
            mask |= as_mask(within)
            taken.append(take_ascending(np.where(within, row.free, 0), _needed(row)))
        else:
            taken.append(_near_and_far(row, inside, is_device=is_device))
            mask |= as_mask(taken[-1] > 0)
    return Spread(left_open, mask, tuple(taken))


def _uncertain(snapshot: Snapshot, share: Share, rows: Sequence[Row], policy_group: PolicyGroup) -> Bools:
    """Nodes (bool [n]) where more than the free amounts decides."""
    if policy_group.closest:
        return np.ones(len(policy_group.nodes), dtype=np.bool_)
    uncertain = unsure(snapshot, share, rows, policy_group)
    for row in rows:
        # NUMA nodes without any CPU or device of the kind are in no hint for it.
        if not row.memory and np.count_nonzero(none := row.capacity == 0):
            none &= snapshot.node_arrays.zone_ids.take(policy_group.nodes, axis=1) >= 0
            uncertain |= np.logical_or.reduce(none, axis=0)
    return uncertain


def _may_prefer(rows: Sequence[Row], width: Masks) -> Bools:
    """Whether a set of this width (int64 [n]) may be preferred (bool [n])."""
    several = not _one_memory(rows)
    possible = np.ones(len(width), dtype=np.bool_)
    # Memory first: where one NUMA node has enough of it, nothing else need be looked at.
    for row in sorted(rows, key=lambda row: not row.memory):
        if not possible.any():
            break
        narrowest = row.narrowest()
        # Several kinds of memory together may need more NUMA nodes than each of them.
        possible &= narrowest <= width if row.memory and several else narrowest == width
    return possible


def _prefer(rows: Sequence[Row], width: Masks, where: Bools, mask: Masks) -> None:
    """Write the lowest set of its width (int64 [n]) with enough of everything into the mask of nodes (bool [n])."""
    (search,) = where.nonzero()
    for wanted in np.flatnonzero(np.bincount(width[search])).tolist():
        here = search[width[search] == wanted]
        mask[here] = lowest_sets(rows, wanted, here, grouped=False)


def _one_memory(rows: Sequence[Row]) -> bool:
    """Whether there is at most one kind of memory: for several, only all sets show what they need together."""
    return sum(row.memory for row in rows) < 2


def _reached(rows: Sequence[Row], inside: Bools) -> Bools:
    """Whether `inside` (bool [z, n]) is certainly an intersection of sufficient sets, one for each row (bool [n]).

    One after the other, each NUMA node outside is left out by the row that can best spare it.
    """
    # Row after row: int64 [row, z, n], [row, n].
    free = np.array([row.free for row in rows])
    spare = np.array([each.sum(axis=0) - row.amount for each, row in zip(free, rows, strict=True)])
    numbers, most, outside = np.arange(len(rows))[:, None], np.maximum(spare, 1), ~inside
    cost = np.zeros_like(spare)
    for position in range(len(inside)):
        then = cost + free[:, position]
        cheapest = (then / most).argmin(axis=0)
        cost = np.where((cheapest == numbers) & outside[position], then, cost)
    reached: Bools = np.logical_and.reduce(cost <= spare, axis=0)
    for row in rows:
        reached |= (row.free * inside).sum(axis=0) >= row.amount
    return reached


def _affinity(rows: Sequence[Row], width: Masks) -> Masks:
    """The lowest affinity of a width (int64 [n]) that is not preferred: int64 [n], 0 = left open.

    rows: two, else all is left open. A set is an affinity if the NUMA nodes outside it can be divided so that each row
    has enough without its part.
    """
    z = len(rows[0].free)
    found = np.zeros(len(width), dtype=np.int64)
    if len(rows) != 2:
        return found
    # Positions that a node does not have: certain nodes have CPUs or devices at all others.
    missing = as_mask(next(row.capacity for row in rows if not row.memory) == 0)
    frees, spares = zip(*[(row.free, row.free.sum(axis=0) - row.amount) for row in rows], strict=True)
    for wanted in np.flatnonzero(np.bincount(width)).tolist():
        sets = lowest_first(z, wanted) if wanted < z else ()
        if len(sets) << (z - wanted) > _MOST_DIVISIONS:
            continue
        here = width == wanted
        for candidate in sets:
            outside = [position for position in range(z) if not candidate >> position & 1]
            first, second = (subset_sums(free[outside]) <= spare for free, spare in zip(frees, spares, strict=True))
            # Row k of a table is what one leaves out; the other leaves out the complement, in row -1 - k.
            reached = np.logical_or.reduce(first & second[::-1], axis=0)
            found[here & reached & (found == 0) & (missing & candidate == 0)] = candidate
    return found


def _near_and_far(row: Row, inside: Bools, *, is_device: bool) -> Amounts:
    """int64 [z, n]: devices or CPUs taken: inside the affinity (bool [z, n]) first, then outside."""
    needed = _needed(row)
    if is_device:
        near = take_ascending(np.where(inside, row.free, 0), needed)
        return near + take_ascending(row.free - near, needed - near.sum(axis=0))
    near = take_cpus(row.free, row.capacity, inside, needed)
    (far,) = (near.sum(axis=0) < row.amount).nonzero()
    if len(far):
        inside_only = near.take(far, axis=1)
        rest, missing = row.free.take(far, axis=1) - inside_only, row.amount - inside_only.sum(axis=0)
        anywhere = np.ones(rest.shape, dtype=np.bool_)
        near[:, far] += take_cpus(rest, row.capacity.take(far, axis=1), anywhere, missing)
    return near


def _widened(row: Row, inside: Bools) -> Bools:
    """`inside` (bool [z, n]) with the fewest, and then the lowest, additional NUMA nodes that suffice."""
    outside = np.where(inside, 0, row.free)
    missing = row.amount - (row.free * inside).sum(axis=0)
    (where,) = (missing > 0).nonzero()
    if not len(where):
        return inside
    outside, missing = outside.take(where, axis=1), missing.take(where)
    widened = inside.copy()
    alone = outside >= missing
    (one,) = alone.any(axis=0).nonzero()
    widened[alone.argmax(axis=0)[one], where[one]] = True
    if len(one) < len(where):
        (several,) = (~alone.any(axis=0)).nonzero()
        added = _lowest_with_enough(outside.take(several, axis=1), missing.take(several))
        widened[:, where[several]] |= added
    return widened


def _lowest_with_enough(amounts: Amounts, missing: Amounts) -> Bools:
    """The fewest, and then the lowest, NUMA nodes with what is missing (int64 [n]); all if they lack it: bool [z, n].

    From the highest NUMA node down: it is needed if the lower ones do not suffice with one less.
    """
    missing = missing.copy()
    fewest = narrowest_width([(amounts, missing)])
    found = np.zeros_like(amounts, dtype=np.bool_)
    for position in reversed(range(len(amounts))):
        lower = np.zeros((position + 1, len(missing)), dtype=np.int64)
        np.cumsum(-np.sort(-amounts[:position], axis=0), axis=0, out=lower[1:])
        most = np.take_along_axis(lower, np.minimum(fewest, position)[None], axis=0)[0]
        needs = most < missing
        found[position] = needs
        missing -= np.where(needs, amounts[position], 0)
        fewest -= needs
    return found


def _needed(row: Row) -> Amounts:
    return np.full(row.free.shape[1], row.amount, dtype=np.int64)
