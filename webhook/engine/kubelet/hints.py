"""The NUMA hints of a kubelet's managers, for many nodes at a time.

1. A mask is a hint if the free amounts of its NUMA nodes suffice.
2. It is preferred if it is as narrow as the machine's *capacity* allows, whatever is in use: all CPUs, reserved ones
   included; all devices; allocatable memory and huge pages.
3. What init containers of the pod left for reuse must be inside the mask (CPUs, devices), or counts for exactly the
   mask under which it was held (memory).
4. The memory manager gives the same masks for memory and every size of huge pages, and separates NUMA nodes that serve
   single-node allocations from groups that serve multi-node ones.

Source: kubernetes pkg/kubelet/cm/cpumanager/policy_static.go, devicemanager/topology_hints.go,
memorymanager/policy_static.go. M masks over z positions, n nodes (webhook.engine.kubelet.bitmask).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools, Ids
from webhook.engine.kubelet.bitmask import subset_sums, subsets_of, widths
from webhook.engine.kubelet.hint_merge import Hints
from webhook.engine.kubelet.pools import Pool


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
