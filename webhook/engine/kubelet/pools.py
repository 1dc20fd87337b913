"""What the managers of n kubelets have left according to the NRT: one pool per resource, and groups of memory.

Rows follow webhook.engine.arrays: positions of NUMA nodes (z) by nodes (n). Amounts not listed by a NUMA node are 0.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools, Ids
from webhook.formats.kubernetes.pod import ContainerKind


@dataclass(slots=True)
class Pool:
    """One resource on n nodes. Modified in place as containers are admitted."""

    capacity: Amounts
    """int64 [z, n]: determines the narrowest mask. CPUs and devices: all; memory: allocatable."""
    free: Amounts
    """int64 [z, n]."""
    listed: Bools
    """bool [n]: some NUMA node of the node lists it; otherwise we cannot know that its manager aligns it."""
    without_topology: Amounts
    """int64 [n]: free devices that are near no NUMA node (without topology)."""
    shared: Bools
    """bool [n]: some devices are near several NUMA nodes, so that sums over NUMA nodes count them twice."""
    reusable: Amounts
    """int64 [z, n]: what init containers of this pod left for later containers (CPUs, devices)."""
    reusable_by_mask: dict[int, Amounts]
    """Mask -> int64 [n]: the same for memory, which is reused only under exactly the same NUMA affinity."""
    per_socket: Ids | None = None
    """int [n]: NUMA nodes of a socket where CPUs are aligned by sockets (align-by-socket), else 0; None: nowhere."""
    spread: Bools | None = None
    """bool [n]: where CPUs of several NUMA nodes are not taken packed; None: nowhere."""

    def total(self) -> Amounts:
        """int64 [n]: free, reusable and near no NUMA node."""
        total: Amounts = self.free.sum(axis=0) + self.reusable.sum(axis=0) + self.without_topology
        return total

    def take_pieces(self, taken: Amounts, kind: ContainerKind) -> None:
        """Give `taken` (int64 [z, n]) of CPUs or devices to a container, reusable ones first.

        What an init container holds stays reusable for later containers.
        """
        reused = np.minimum(taken, self.reusable)
        self.free -= taken - reused
        if kind is ContainerKind.INIT:
            self.reusable += taken - reused
        else:
            self.reusable -= reused


def take_in_order(available: Amounts, requested: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> Amounts:
    """int64 [z, n]: how `requested` (int64 [n]) is taken from `available` (int64 [z, n]), NUMA node after NUMA node.

    order: int64 [z, n], a permutation of the positions for each node, first taken first.
    """
    # Indexes of the flat arrays: along an axis, numpy takes several times as long for few nodes.
    places = order * available.shape[1] + np.arange(available.shape[1])
    taken = np.empty(available.shape, dtype=np.int64)
    taken.put(places, take_ascending(available.take(places), requested))
    return taken


def take_ascending(available: Amounts, requested: npt.NDArray[np.int64]) -> Amounts:
    """The same in ascending order of the positions."""
    left = requested - np.add.accumulate(available, axis=0)
    left += available
    np.maximum(left, 0, out=left)
    return np.minimum(left, available, out=left)


def take_cpus(available: Amounts, capacity: Amounts, allowed: Bools, requested: npt.NDArray[np.int64]) -> Amounts:
    """int64 [z, n]: whole free NUMA nodes while that many are needed, then from the fullest NUMA node on.

    Source: kubernetes pkg/kubelet/cm/cpumanager/cpu_assignment.go, packed allocation. An NRT does not show sockets and
    cores; we assume one socket per NUMA node and one thread per core.
    """
    available = np.where(allowed, available, 0)
    # Empty NUMA nodes last: nothing is taken from them.
    order = np.argsort(np.where(available > 0, available, np.iinfo(np.int64).max), axis=0, kind="stable")
    whole = (available > 0) & (available == capacity)
    size = np.where(whole, available, 0)
    most = size.max(axis=0)
    if (whole & (size != most)).any():
        taken = _take_unequal(size, requested, order)
    else:
        # Equal ones are taken in the order of their positions.
        taken = np.where(np.add.accumulate(whole, axis=0) <= requested // np.maximum(most, 1), size, 0)
    return taken + take_in_order(available - taken, requested - taken.sum(axis=0), order)


def _take_unequal(size: Amounts, requested: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> Amounts:
    """int64 [z, n]: the whole free NUMA nodes that are taken, where they differ. size: int64 [z, n]: 0 = not one."""
    needed = requested.copy()
    taken = np.zeros_like(size)
    columns = np.arange(size.shape[1])
    for position in order:
        here = size[position, columns]
        here = np.where(needed >= here, here, 0)
        taken[position, columns] = here
        needed -= here
    return taken
