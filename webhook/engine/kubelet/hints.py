"""The NUMA hints of a kubelet's managers, and their merge into one, for many nodes at a time.

1. A mask is a hint if the free amounts of its NUMA nodes suffice.
2. It is preferred if it is as narrow as the machine's *capacity* allows, whatever is in use: all CPUs, reserved ones
   included; all devices; allocatable memory and huge pages.
3. What init containers of the pod left for reuse must be inside the mask (CPUs, devices), or counts for exactly the
   mask under which it was held (memory).
4. The memory manager gives the same masks for memory and every size of huge pages, and separates NUMA nodes that serve
   single-node allocations from groups that serve multi-node ones.
5. The Topology Manager merges the lists of all managers (`merge`).

M masks over z positions, n nodes (webhook.engine.kubelet.bitmask).

Source: kubernetes pkg/kubelet/cm/cpumanager/policy_static.go, devicemanager/topology_hints.go,
memorymanager/policy_static.go, topologymanager/policy*.go, topologymanager/numa_info.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools, Ids, Nodes, amounts_at, every
from webhook.engine.kubelet.bitmask import counts, distance_sums, intersections, subset_sums, subsets_of, widths
from webhook.engine.kubelet.demand import Share
from webhook.engine.kubelet.machine_state import devices_shared
from webhook.engine.kubelet.policy_groups import PolicyGroup
from webhook.engine.kubelet.pools import Pool
from webhook.engine.numa_fit import Masks
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import is_memory

"""int64 [n] or [M, n]: masks, or numbers by mask."""


@dataclass(frozen=True, slots=True)
class Hints:
    """One list of hints on each of n nodes. M masks; row 0, the empty mask, is never set."""

    preferred: Bools
    """bool [M, n]: the mask is in the list and preferred."""
    other: Bools
    """bool [M, n]: the mask is in the list and not preferred."""
    any_preferred: Bools
    """bool [n]: the list has "any NUMA node", preferred: the provider has no requirement."""
    any_other: Bools
    """bool [n]: the list has "any NUMA node", not preferred: the provider cannot be satisfied."""

    def single_numa_node(self) -> "Hints":
        """What single-numa-node keeps: preferred hints of one NUMA node, and preferred "any"."""
        one = widths(_z(self))[:, None] == 1
        return Hints(self.preferred & one, np.zeros_like(self.other), self.any_preferred, np.zeros_like(self.any_other))


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged hint on each of n nodes."""

    mask: Masks
    """int64 [n]: the NUMA nodes; the whole machine also stands for "any"."""
    preferred: Bools
    """bool [n]."""

    def admitted(self, policy: NUMAPolicy) -> Bools:
        """Whether the policy admits a pod with this hint (bool [n])."""
        if policy in {NUMAPolicy.NONE, NUMAPolicy.BEST_EFFORT}:
            return np.ones(self.preferred.shape, dtype=np.bool_)
        return self.preferred


def merge(
    lists: Sequence[Hints],
    policy: NUMAPolicy,
    machine: Masks,
    distances: Ids | None = None,
    *,
    preferred_only: bool = False,
) -> Merged:
    """Merge the lists of hints of n nodes under one policy.

    1. Every provider gives one list of hints per resource: possible masks, some of them preferred. A list may also
       contain "any NUMA node" (no mask given), preferred or not.
    2. Over the cross product of the lists, a merged mask is the intersection of the masks given, where "any" is the
       whole machine. It is preferred if every hint is preferred and all masks given are equal. Empty intersections are
       dropped.
    3. Preferred beats not preferred. Of preferred masks the narrowest wins; of the others the width nearest to, but not
       over, the largest of the lists' narrowest widths, then the narrowest above it.
    4. At equal width the smaller average distance wins (prefer-closest-numa-nodes, not for single-numa-node), then the
       lower mask.
    5. If nothing is left: the whole machine, not preferred. The policy then admits or, unless preferred, rejects.

    The cross product itself is never walked: preferred results are an AND of the lists, the others an intersection
    transform (webhook.engine.kubelet.bitmask).

    machine: int64 [n], mask of the node's NUMA nodes. distances: int16 [z, z, n] for nodes that prefer the closest NUMA
    nodes, None for nodes that do not. preferred_only: a hint that is not preferred will be rejected, so its mask is not
    computed (it is then the whole machine).
    """
    z = _z(lists[0]) if lists else int(machine.max(initial=1)).bit_length()
    if policy is NUMAPolicy.SINGLE_NUMA_NODE:
        lists = [hints.single_numa_node() for hints in lists]
        distances = None
    whole = np.arange(1 << z)[:, None] == machine
    average = None
    if distances is not None:
        average = distance_sums(distances) / np.maximum(widths(z) ** 2, 1)[:, None]

    agreed = _agreed(lists, whole)
    preferred: Bools = np.asarray(agreed.any(axis=0))
    mask = best(agreed, widths(z)[:, None], average)
    # single-numa-node has no other hints left. If a hint will be rejected, its mask is useless, and not computed.
    if policy is not NUMAPolicy.SINGLE_NUMA_NODE and not preferred_only and not preferred.all():
        rest = np.flatnonzero(~preferred)
        left = [_columns(hints, rest) for hints in lists]
        reached = _reached(left, whole[:, rest])
        order = _order_of_widths(_largest_narrowest(left, z), z)
        mask[rest] = best(reached, order, None if average is None else average[:, rest])
    return Merged(np.where(mask > 0, mask, machine), preferred)


def best(candidates: Bools, order: Masks, average: npt.NDArray[np.float64] | None) -> Masks:
    """int64 [n]: the candidate (bool [M, n]) first by `order` ([M, n] or [M, 1]), average distance, mask; 0 if none."""
    last = np.iinfo(np.int64).max
    ranked = np.where(candidates, order, last)
    first = candidates & (ranked == ranked.min(axis=0))
    if average is not None:
        far = np.where(first, average, np.inf)
        first &= far == far.min(axis=0)
    chosen: Masks = first.argmax(axis=0).astype(np.int64, copy=False)
    return chosen


def _z(hints: Hints) -> int:
    return len(hints.preferred).bit_length() - 1


def _agreed(lists: Sequence[Hints], whole: Bools) -> Bools:
    """Masks (bool [M, n]) that every list prefers or leaves open; the whole machine if all leave it open."""
    agreed = np.ones_like(whole)
    named = np.zeros_like(whole)
    open_everywhere = np.ones(whole.shape[1], dtype=np.bool_)
    for hints in lists:
        agreed &= hints.preferred | hints.any_preferred
        named |= hints.preferred
        open_everywhere &= hints.any_preferred
    return agreed & named | whole & open_everywhere


def _reached(lists: Sequence[Hints], whole: Bools) -> Bools:
    """Every intersection of one hint from each list, except the empty one (bool [M, n])."""
    reached = whole
    for hints in lists:
        given = hints.preferred | hints.other | whole & (hints.any_preferred | hints.any_other)
        reached = intersections(reached, given)
    reached[0] = False
    return reached


def _largest_narrowest(lists: Sequence[Hints], z: int) -> Masks:
    """int64 [n]: the largest of the lists' narrowest widths; lists without a mask do not count."""
    largest = np.zeros(lists[0].any_other.shape if lists else 1, dtype=np.int64)
    for hints in lists:
        given = hints.preferred | hints.other
        narrowest = np.where(given, widths(z)[:, None], z + 1).min(axis=0)
        np.maximum(largest, np.where(narrowest > z, 0, narrowest), out=largest)
    return largest


def _order_of_widths(target: Masks, z: int) -> Masks:
    """int64 [M, n]: 0 for masks as wide as the target, then narrower ones by how far below, then wider ones."""
    width = widths(z)[:, None]
    return np.where(width <= target, target - width, width)


def _columns(hints: Hints, nodes: npt.NDArray[np.intp]) -> Hints:
    return Hints(hints.preferred[:, nodes], hints.other[:, nodes], hints.any_preferred[nodes], hints.any_other[nodes])


def piece_hints(pool: Pool, requested: int) -> Hints:
    """Hints of the CPU manager or the device manager for whole CPUs or devices.

    A resource without NUMA nodes allows any mask; one that no mask can provide cannot be satisfied.
    """
    found = subsets_of(pool.capacity > 0)
    found[0] = False
    found &= subset_sums(pool.free + pool.reusable) >= requested
    if pool.reusable.any():
        found &= subset_sums(pool.reusable) == pool.reusable.sum(axis=0)
    found &= pool.listed & (pool.total() >= requested)
    preferred = preferable(pool, requested)
    return Hints(
        found & preferred,
        found & ~preferred,
        any_preferred=~pool.listed,
        any_other=pool.listed & ~found.any(axis=0),
    )


def preferable(pool: Pool, requested: int) -> Bools:
    """The masks that the CPU manager or the device manager prefers if enough is free there (bool [M, n])."""
    has_any = pool.capacity > 0
    narrowest = np.minimum(narrowest_width([(pool.capacity, requested)]), has_any.sum(axis=0))
    width = widths(len(has_any))[:, None]
    preferred = width == narrowest
    if pool.shared.any():
        # Devices counted twice make masks look larger than they are: the real narrowest width is this or more.
        preferred |= pool.shared & (narrowest > 1) & (width > narrowest)
    if pool.per_socket is not None:
        preferred |= _socket_aligned(has_any, narrowest, pool.per_socket)
    found: Bools = subsets_of(has_any) & preferred & (width > 0)
    return found


def _socket_aligned(has_any: Bools, narrowest: npt.NDArray[np.int64], per_socket: Ids) -> Bools:
    """Masks over no more sockets than necessary, which align-by-socket prefers, too (bool [M, n]).

    NUMA nodes of a socket have consecutive ids. per_socket: int [n], 0 = CPUs are not aligned by sockets there.
    """
    size = np.maximum(per_socket, 1)
    socket = (np.cumsum(has_any, axis=0) - 1) // size
    spans = np.zeros((1 << len(has_any), len(size)), dtype=np.int64)
    for number in range(int(socket.max(initial=0)) + 1):
        spans += subset_sums((has_any & (socket == number)).astype(np.int64)) > 0
    aligned: Bools = (per_socket > 0) & (spans == -(-narrowest // size))
    return aligned


@dataclass(frozen=True, slots=True)
class MemoryMasks:
    """The masks on which the memory manager would allocate; the same for every kind of memory a container names."""

    found: Bools
    """bool [M, n]."""
    narrowest: npt.NDArray[np.int64]
    """int64 [n]: the preferred width."""

    @property
    def preferred(self) -> Bools:
        """The preferred ones (bool [M, n])."""
        z = len(self.found).bit_length() - 1
        preferred: Bools = self.found & (widths(z)[:, None] == self.narrowest)
        return preferred

    def hints(self, managed: Bools) -> Hints:
        """The list for one kind of memory. Without any mask it means "no preference": the allocation fails later.

        managed: bool [n], nodes whose memory is known.
        """
        preferred = self.preferred
        closed = ~self.found.any(axis=0) | ~managed
        return Hints(
            preferred & managed,
            self.found & ~preferred & managed,
            any_preferred=closed,
            any_other=np.zeros_like(closed),
        )


def memory_masks(pools: Mapping[int, Pool], requested: Mapping[int, int], groups_allow: Bools) -> MemoryMasks:
    """Masks with enough of every kind of memory named (row -> bytes), among those the groups allow (bool [M, n]).

    A kind that no NUMA node of a node lists is not checked there; another check covers nodes without any of it.
    """
    z = len(groups_allow).bit_length() - 1
    wanted = [(pools[row], amount) for row, amount in requested.items()]
    enough = np.ones_like(groups_allow)
    enough[0] = False
    for pool, amount in wanted:
        enough[1:] &= (subset_sums(pool.capacity)[1:] >= amount) | ~pool.listed
    narrowest = np.where(enough, widths(z)[:, None], z).min(axis=0)
    found = enough & groups_allow
    for pool, amount in wanted:
        free = subset_sums(pool.free)
        for mask, reusable in pool.reusable_by_mask.items():
            free[mask] += reusable
        found &= (free >= amount) | ~pool.listed
    return MemoryMasks(found, narrowest)


def narrowest_width(wanted: Sequence[tuple[Amounts, int | Amounts]]) -> npt.NDArray[np.int64]:
    """int64 [n]: the fewest NUMA nodes whose capacity (int64 [z, n]) suffices; z + 1 if all together do not.

    An amount is one for all nodes or one for each (int64 [n]).
    """
    narrowest = np.ones(wanted[0][0].shape[1], dtype=np.int64)
    for capacity, amount in wanted:
        most = np.cumsum(-np.sort(-capacity, axis=0), axis=0)
        np.maximum(narrowest, 1 + (most < amount).sum(axis=0), out=narrowest)
    return narrowest


@dataclass(frozen=True, slots=True)
class Row:
    """One resource of a share on n nodes; amounts int64 [z, n], 0 where a NUMA node does not list it."""

    amount: int
    capacity: Amounts
    free: Amounts
    memory: bool

    def at(self, where: Nodes) -> "Row":
        """The same row for some of the nodes."""
        return Row(self.amount, self.capacity.take(where, axis=1), self.free.take(where, axis=1), self.memory)

    def narrowest(self) -> Masks:
        """int64 [n]: the fewest NUMA nodes with enough capacity; more than there are if all together are too few."""
        capacity = self.capacity
        most = capacity.max(axis=0)
        if every(most == most[:1]):
            width: Masks = np.full(len(most), -(-self.amount // max(int(most.max(initial=0)), 1)), dtype=np.int64)
        else:
            width = -(-self.amount // np.maximum(most, 1))
        # If all NUMA nodes with any have the same amount, that is the capacity.
        (unequal,) = (capacity.min(axis=0) != most).nonzero()
        if len(unequal):
            some = capacity.take(unequal, axis=1)
            (uneven,) = (some.sum(axis=0) != most[unequal] * counts(some > 0)).nonzero()
            if len(uneven):
                width[unequal[uneven]] = narrowest_width([(some.take(uneven, axis=1), self.amount)])
        # As many as the request has bytes, if no capacity is listed.
        return np.minimum(width, len(capacity) + 1)


def rows_of(snapshot: Snapshot, share: Share, nodes: Nodes) -> list[Row]:
    """The rows of a share, in the order of its amounts."""
    return [_row(snapshot, row, amount, nodes) for row, amount in share.amounts.items()]


def unsure(snapshot: Snapshot, share: Share, rows: Sequence[Row], policy_group: PolicyGroup) -> Bools:
    """Nodes (bool [n]) whose rows may be incomplete.

    No NUMA node lists the resource, more is free than exists, devices are near two NUMA nodes, zero devices are
    requested, which still binds the container, or an option of the kubelet spreads CPUs or prefers other sets for them.
    """
    nodes = policy_group.nodes
    found = np.zeros(len(nodes), dtype=np.bool_)
    for number, one in zip(share.amounts, rows, strict=True):
        listed = snapshot.node_arrays.listed[number]
        if not every(listed):
            found |= ~listed.take(nodes)
        more = one.free > one.capacity
        if np.count_nonzero(more):
            found |= np.logical_or.reduce(more, axis=0)
        if number in share.cpu:
            node_arrays = snapshot.node_arrays
            found |= node_arrays.spread_cpus.take(nodes) | (node_arrays.numa_per_socket.take(nodes) > 0)
        if one.amount == 0:
            found[:] = True
        elif number in share.devices:
            found |= devices_shared(snapshot, number, nodes)
    return found


def _row(snapshot: Snapshot, row: int, amount: int, nodes: Nodes) -> Row:
    node_arrays = snapshot.node_arrays
    memory = is_memory(node_arrays.resources.names[row])
    # For the narrowest width, reserved CPUs count; memory reserved for the system does not.
    capacity = (node_arrays.zone_allocatable if memory else node_arrays.capacity)[row]
    found = amounts_at(capacity, nodes)
    listed = node_arrays.listed[row].take(nodes)
    if not every(listed):
        found = found * listed
    return Row(amount, found, amounts_at(snapshot.free(row), nodes), memory)
