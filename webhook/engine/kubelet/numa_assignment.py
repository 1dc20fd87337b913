"""The NUMA nodes of a pod where we choose them: the fewest that together hold all its requests.

1. A set of NUMA nodes qualifies if each of them has some of every requested resource free, and all together have enough
   of each. A resource that no NUMA node of a node lists is not aligned there; where that holds for all requests, the
   pod is on no particular NUMA node.
2. The narrowest sets first; single-numa-node allows one NUMA node only.
3. Of equally narrow sets the one that is fullest afterwards, so that whole NUMA nodes stay free; then the lowest.
4. If that would take too long, on machines of very many NUMA nodes, all usable ones are taken.
5. A set of several shares the amounts as evenly as possible.

No kubelet aligns there, so nothing has to be "preferred" by capacity: a pod that takes 10 CPUs of NUMA nodes with 8
uses two, even if its memory would fit into one. Source: koordinator pkg/scheduler/plugins/nodenumaresource
(generateResourceHints: every set that holds all requests is a hint, under Restricted a preferred one;
tryBestToDistributeEvenly), frameworkext/topologymanager (mergeFilteredHints: narrowest, then best score).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb, gcd
from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import NO_ZONE, Amounts, Bools, Nodes, every
from webhook.engine.kubelet.bitmask import as_mask, lowest
from webhook.engine.kubelet.demand import Demand, Share
from webhook.engine.numa_fit import Allocation, Masks
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.resources import CPU, is_hugepages

# The most table entries (sets by nodes) for one pod, about 40 ms. On 5,000 nodes of eight NUMA nodes, a pod with two
# resources takes 0.6 million for two NUMA nodes each, 2.8 million for four.
_MOST_ENTRIES = 1 << 22
# Entries of a table of sets by nodes: 2 MiB of int64, which stay in the cache.
_BATCH = 1 << 18
# The free amount if no NUMA node lists the resource: it makes no set fuller than another.
_VAST = 1 << 56


class _Row(NamedTuple):
    """One resource on n nodes; int64 [z, n]: free amount and capacity."""

    amount: int
    free: Amounts
    size: Amounts

    def at(self, where: Nodes) -> "_Row":
        """The same row for some of the nodes."""
        return _Row(self.amount, self.free.take(where, axis=1), self.size.take(where, axis=1))


def joint_sets(snapshot: Snapshot, share: Share, nodes: Nodes, widest: int) -> Masks:
    """int64 [n]: the NUMA nodes (a mask of positions) for a pod's request on some nodes (indexes); 0 = none.

    share: what is aligned, not empty; widest: the most NUMA nodes that may be used.
    """
    rows = [_row(snapshot, row, amount, nodes) for row, amount in share.amounts.items() if amount > 0]
    usable = _usable(snapshot, share, rows, nodes)
    mask = _fullest_one(rows, usable)
    if widest == 1 or not rows:
        return mask
    budget = _MOST_ENTRIES
    (left,) = (mask == 0).nonzero()
    rows, usable = [row.at(left) for row in rows], usable[:, left]
    width = _narrowest(rows, usable)
    found = np.zeros(len(left), dtype=np.int64)
    for wide in range(2, min(widest, len(usable)) + 1):
        (here,) = ((found == 0) & (width <= wide)).nonzero()
        cost = comb(len(usable), wide) * wide * len(rows)
        tried = here[: budget // cost] if cost <= _BATCH else here[:0]
        budget -= len(tried) * cost
        for batch in np.array_split(tried, -(-len(tried) * cost // _BATCH)) if len(tried) else ():
            found[batch] = _fullest(rows, usable, _sets(len(usable), wide), batch)
        untried = here[len(tried) :]
        found[untried] = _all_usable(rows, usable, untried)
    mask[left] = found
    return mask


def share_out(snapshot: Snapshot, demand: Demand, node: int, mask: int) -> Allocation:
    """What the pod takes of each NUMA node of the mask, which holds it. node: an index."""
    node_arrays = snapshot.node_arrays
    ids = node_arrays.zone_ids[:, node].tolist()
    taken: dict[int, dict[str, int]] = {z: {} for z in range(len(ids)) if mask >> z & 1}
    for row, amount in demand.pod.amounts.items():
        if amount <= 0 or not node_arrays.listed[row, node]:
            continue
        free = {z: max(int(snapshot.free(row)[z, node]), 0) for z in taken}
        name, needed = demand.names[row], amount
        unit = _unit(name, amount, free.values())
        for left, z in zip(range(len(free), 0, -1), sorted(free, key=free.__getitem__), strict=True):
            evenly = -(-needed // (left * unit)) * unit
            here = min(free[z], evenly, needed)
            needed -= here
            if here:
                taken[z][name] = here
    return tuple((ids[z], amounts) for z, amounts in taken.items() if amounts)


def _row(snapshot: Snapshot, row: int, amount: int, nodes: Nodes) -> _Row:
    free = snapshot.free(row)
    size = snapshot.node_arrays.zone_allocatable[row]
    if len(nodes) < free.shape[1]:
        free, size = free.take(nodes, axis=1), size.take(nodes, axis=1)
    listed = snapshot.node_arrays.listed[row].take(nodes)
    if not every(listed):
        free, size = free.copy(), size.copy()
        free[:, ~listed] = amount
        size[:, ~listed] = _VAST
    return _Row(amount, free, size)


def _usable(snapshot: Snapshot, share: Share, rows: Sequence[_Row], nodes: Nodes) -> Bools:
    """The NUMA nodes with some of every resource free: bool [z, n]."""
    node_arrays = snapshot.node_arrays
    usable: Bools = node_arrays.zone_ids[:, nodes] != NO_ZONE
    for row in rows:
        np.logical_and(usable, row.free > 0, out=usable)
    for number, amount in share.devices.items():
        if amount == 0:
            # A request for zero devices still binds the pod to NUMA nodes that have some.
            there: Bools = node_arrays.capacity[number][:, nodes] > 0
            np.logical_and(usable, there | ~node_arrays.listed[number].take(nodes), out=usable)
    return usable


def _fullest_one(rows: Sequence[_Row], usable: Bools) -> Masks:
    """int64 [n]: the best NUMA node that holds the pod alone; 0 = none does."""
    holds = usable.copy()
    for row in rows:
        np.logical_and(holds, row.free >= row.amount, out=holds)
    several = np.count_nonzero(holds, axis=0) > 1
    mask = lowest(holds)
    (open_,) = several.nonzero()
    if len(open_):
        left = np.zeros((len(usable), len(open_)))
        for row in rows:
            left += (row.free.take(open_, axis=1) - row.amount) / np.maximum(row.size.take(open_, axis=1), 1)
        left[~holds.take(open_, axis=1)] = np.inf
        mask[open_] = np.int64(1) << left.argmin(axis=0)
    return mask


def _fullest(rows: Sequence[_Row], usable: Bools, sets: Nodes, here: Nodes) -> Masks:
    """int64 [n]: the best of the sets (intp [set, width]) on the nodes at `here`; 0 = none holds the pod."""
    holds: Bools = np.logical_and.reduce(usable[:, here][sets], axis=1)
    left = np.zeros(holds.shape)
    for row in rows:
        total = row.free[:, here][sets].sum(axis=1)
        np.logical_and(holds, total >= row.amount, out=holds)
        left += (total - row.amount) / np.maximum(row.size[:, here][sets].sum(axis=1), 1)
    best = np.where(holds, left, np.inf).argmin(axis=0)
    bits = (np.int64(1) << sets).sum(axis=1)
    return np.where(holds.any(axis=0), bits[best], 0)


def _narrowest(rows: Sequence[_Row], usable: Bools) -> Nodes:
    """Int [n]: a lower bound of the NUMA nodes needed, by each resource alone; more than there are if none suffice."""
    width = np.ones(usable.shape[1], dtype=np.intp)
    for row in rows:
        largest = np.cumsum(-np.sort(-np.where(usable, row.free, 0), axis=0), axis=0)
        np.maximum(width, 1 + (largest < row.amount).sum(axis=0), out=width)
    return width


def _all_usable(rows: Sequence[_Row], usable: Bools, here: Nodes) -> Masks:
    """int64 [n]: all usable NUMA nodes of the nodes at `here`; 0 if they do not hold the pod."""
    inside: Bools = usable[:, here]
    holds: Bools = np.logical_or.reduce(inside, axis=0)
    for row in rows:
        np.logical_and(holds, np.where(inside, row.free[:, here], 0).sum(axis=0) >= row.amount, out=holds)
    return np.where(holds, as_mask(inside), 0)


@lru_cache(maxsize=32)
def _sets(z: int, width: int) -> Nodes:
    """The sets of k of z positions, ascending: intp [set, width]."""
    return np.array(list(combinations(range(z), width)), dtype=np.intp)


def _unit(name: str, amount: int, free: Iterable[int]) -> int:
    """The smallest amount allocated: a whole CPU if whole CPUs are requested, a huge page, one byte, one device."""
    if name == CPU:
        return 1000 if amount % 1000 == 0 else 1
    return gcd(amount, *free) if is_hugepages(name) else 1
