"""What the managers of n kubelets have left according to the NRT: one pool per resource, and groups of memory.

Rows follow webhook.engine.arrays: positions of NUMA nodes (z) by nodes (n). Amounts not listed by a NUMA node are 0.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools
from webhook.model.pod import ContainerKind


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
    sorted_available = np.take_along_axis(available, order, axis=0)
    before = np.cumsum(sorted_available, axis=0) - sorted_available
    sorted_taken = np.clip(requested - before, 0, sorted_available)
    taken = np.empty_like(available)
    np.put_along_axis(taken, order, sorted_taken, axis=0)
    return taken


def take_cpus(available: Amounts, capacity: Amounts, allowed: Bools, requested: npt.NDArray[np.int64]) -> Amounts:
    """int64 [z, n]: whole free NUMA nodes while that many are needed, then from the fullest NUMA node on.

    Source: kubernetes pkg/kubelet/cm/cpumanager/cpu_assignment.go, packed allocation. An NRT does not show sockets and
    cores; we assume one socket per NUMA node and one thread per core.
    """
    available = np.where(allowed, available, 0)
    # Empty NUMA nodes last: nothing is taken from them.
    order = np.argsort(np.where(available > 0, available, np.iinfo(np.int64).max), axis=0, kind="stable")
    needed = requested.copy()
    taken = np.zeros_like(available)
    columns = np.arange(available.shape[1])
    for position in order:
        here = available[position, columns]
        whole = (here > 0) & (here == capacity[position, columns]) & (needed >= here)
        taken[position, columns] += np.where(whole, here, 0)
        needed -= np.where(whole, here, 0)
    return taken + take_in_order(available - taken, needed, order)
