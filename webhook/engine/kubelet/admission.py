"""Admission by a kubelet, over all sets of NUMA nodes: for cases that the short way by single NUMA nodes leaves open.

For n nodes of one policy and scope, container after container:
1. Hints of the device, CPU and memory managers, merged into one affinity (scope "pod": once, for the whole pod).
2. The policy rejects (restricted: hints that are not preferred), or the managers allocate, in this order:
   devices and CPUs inside the affinity first, then outside; memory strictly, widening the affinity if necessary.
3. If a manager cannot allocate, that is an error: the pod is rejected although its hint was accepted.

An NRT does not show memory groups, or how CPUs are spread over cores. Where the outcome depends on that, the pod counts
as admitted: no node that would take it is rejected.

Source: kubernetes pkg/kubelet/cm/topologymanager/scope*.go, {devicemanager,cpumanager,memorymanager}.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools, Bytes
from webhook.engine.kubelet.bitmask import as_mask, members, widths
from webhook.engine.kubelet.demand import Demand, Share
from webhook.engine.kubelet.hint_merge import Hints, best, merge
from webhook.engine.kubelet.hints import MemoryMasks, memory_masks, piece_hints
from webhook.engine.kubelet.machine_state import Machines
from webhook.engine.kubelet.memory_manager import UNKNOWN_GROUP, masks_by_groups, possible_groups, published_groups
from webhook.engine.kubelet.pools import Pool, take_cpus, take_in_order
from webhook.engine.reason import Reason
from webhook.model.pod import ContainerKind
from webhook.model.policy import NUMAPolicy, Scope


@dataclass(slots=True)
class Affinity:
    """The hint of a container on each node."""

    mask: npt.NDArray[np.int64]
    """int64 [n]."""
    preferred: Bools
    """bool [n]."""
    given: Bools
    """bool [n]: there is one; without one, managers choose for themselves."""


class Admission:
    """One pod's admission on n nodes.

    `reason` and `mask` (uint8 and int64 [n]) hold the outcome, the machines' pools what is left, `uncertain` (bool [n])
    whether the real outcome may differ, `groups` (int64 [z, n]) the memory groups afterwards.
    """

    def __init__(self, machines: Machines, demand: Demand) -> None:
        self._machines = machines
        self._demand = demand
        self._pools = machines.pools
        self._z, n = next(iter(machines.pools.values())).capacity.shape
        self.reason: Bytes = np.full(n, Reason.FITS, dtype=np.uint8)
        self.mask: npt.NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        kinds = [machines.pools[row] for row in machines.memory_rows]
        self._managed = np.logical_or.reduce([pool.listed for pool in kinds]) if kinds else np.zeros(n, dtype=np.bool_)
        self._may_be_group = possible_groups(machines.policy, kinds, (1 << self._z, n))
        self.groups = np.zeros((self._z, n), dtype=np.int64)
        if machines.groups is not None:
            self.groups = machines.groups
        elif kinds:
            self.groups = published_groups(kinds, self._may_be_group)
        self.uncertain: Bools = (self.groups == UNKNOWN_GROUP).any(axis=0)
        if not any(share.memory for share in demand.containers):
            self.uncertain[:] = False
        self._spread_unknown = np.zeros(n, dtype=np.bool_)
        if machines.scope is Scope.CONTAINER:
            for row in demand.reused_devices:
                self.uncertain |= machines.pools[row].shared
        elif machines.policy is NUMAPolicy.BEST_EFFORT and len(demand.containers) > 1:
            # One device near two NUMA nodes and one near none look like two. The pod's real affinity may then be wider,
            # and its containers may meet other memory groups.
            for row, amount in demand.pod.devices.items():
                pool = machines.pools[row]
                self.uncertain |= pool.listed & (pool.free.max(axis=0) < amount)

    def run(self) -> None:
        """Admit the containers in their order."""
        affinity = self._affinity(self._demand.pod) if self._machines.scope is Scope.POD else None
        for share in self._demand.containers:
            # The spread of an earlier container's devices and CPUs affects this one.
            self.uncertain |= self._spread_unknown
            self._allocate(share, affinity or self._affinity(share))

    def _fail(self, failed: Bools, reason: Reason) -> None:
        self.reason[failed & (self.reason == Reason.FITS)] = reason

    def _affinity(self, share: Share) -> Affinity:
        machines = self._machines
        n = len(machines.machine)
        if machines.policy is NUMAPolicy.NONE:
            nowhere = np.zeros(n, dtype=np.bool_)
            return Affinity(machines.machine, nowhere, nowhere)
        lists: list[Hints] = [
            piece_hints(self._pools[row], amount) for row, amount in (*share.devices.items(), *share.cpu.items())
        ]
        if share.memory:
            lists += [self._memory_masks(share).hints(self._managed)] * len(share.memory)
        strict = machines.policy is not NUMAPolicy.BEST_EFFORT
        merged = merge(lists, machines.policy, machines.machine, machines.distances, preferred_only=strict)
        if strict:
            single = machines.policy is NUMAPolicy.SINGLE_NUMA_NODE
            self._fail(~merged.preferred, Reason.NO_SINGLE_NUMA_NODE if single else Reason.NOT_ALIGNED)
        given = np.ones(n, dtype=np.bool_)
        if machines.policy is NUMAPolicy.SINGLE_NUMA_NODE:
            given = merged.mask != machines.machine
        return Affinity(merged.mask, merged.preferred, given)

    def _allocate(self, share: Share, affinity: Affinity) -> None:
        inside = members(self._z)[affinity.mask].T
        for row, amount in share.devices.items():
            self._allocate_devices(self._pools[row], amount, share.kind, inside, affinity.given)
        for row, amount in share.cpu.items():
            self._allocate_cpus(self._pools[row], amount, share.kind, inside, affinity.given)
        if share.memory:
            self._allocate_memory(share, affinity)

    def _use(self, taken: Bools) -> None:
        self.mask |= as_mask(taken)

    def _allocate_devices(self, pool: Pool, amount: int, kind: ContainerKind, inside: Bools, given: Bools) -> None:
        self._fail(pool.listed & (pool.total() < amount), Reason.ALLOCATION_FAILS)
        order = np.broadcast_to(np.arange(self._z)[:, None], pool.free.shape)
        needed = np.full(len(given), amount, dtype=np.int64)
        reused = take_in_order(pool.reusable, needed, order)
        needed -= reused.sum(axis=0)
        allowed = np.where(inside & given, pool.free, 0)
        near = take_in_order(allowed, needed, order)
        self._note_split(pool.reusable, reused)
        self._note_split(allowed, near)
        needed -= near.sum(axis=0)
        far = take_in_order(pool.free - near, needed, order)
        needed -= far.sum(axis=0)
        if kind is not ContainerKind.INIT:
            pool.without_topology -= np.clip(needed, 0, pool.without_topology)
        self._use(reused + near + far > 0)
        pool.take_pieces(reused + near + far, kind)

    def _allocate_cpus(self, pool: Pool, amount: int, kind: ContainerKind, inside: Bools, given: Bools) -> None:
        self._fail(pool.listed & (pool.total() < amount), Reason.ALLOCATION_FAILS)
        available = pool.free + pool.reusable
        needed = np.full(len(given), amount, dtype=np.int64)
        near = take_cpus(available, pool.capacity, inside & given, needed)
        far = take_cpus(available - near, pool.capacity, np.ones_like(inside), needed - near.sum(axis=0))
        whole = pool.capacity
        self._note_split(np.where(inside & given, available, 0), near, whole)
        self._note_split(available - near, far, whole)
        self._use(near + far > 0)
        pool.take_pieces(near + far, kind)

    def _note_split(self, available: Amounts, taken: Amounts, whole: Amounts | None = None) -> None:
        """Later containers are uncertain: it is unknown how a part of several NUMA nodes' capacity is spread.

        Of two NUMA nodes with all their CPUs free (`whole`, capacities) the kubelet fills the first.
        """
        total = taken.sum(axis=0)
        in_part = (total > 0) & (total < available.sum(axis=0))
        several = (available > 0).sum(axis=0)
        if whole is None:
            known = several < 2
        else:
            known = (several < 2) | (several == 2) & ((available == 0) | (available == whole)).all(axis=0)
        if self._machines.scope is Scope.CONTAINER and self._machines.policy is not NUMAPolicy.SINGLE_NUMA_NODE:
            self._spread_unknown |= in_part & ~known & (self.reason == Reason.FITS)

    def _memory_masks(self, share: Share) -> MemoryMasks:
        return memory_masks(self._pools, share.memory, masks_by_groups(self.groups, self._may_be_group))

    def _allocate_memory(self, share: Share, affinity: Affinity) -> None:
        """1. Without an affinity: the manager's own best hint. 2. Widen it if needed. 3. Check groups. 4. Allocate."""
        masks = self._memory_masks(share)
        preferred = masks.preferred
        order = np.where(preferred, 0, self._z + 1) + widths(self._z)[:, None]
        own = best(masks.found, order, None)
        mask = np.where(affinity.given, affinity.mask, own)
        columns = np.arange(len(mask))
        failed = ~affinity.given & ((own == 0) | affinity.preferred & ~preferred[own, columns])

        small = ~self._suffices(share.memory, mask)
        contains = (np.arange(1 << self._z)[:, None] & mask) == mask
        wider = best(masks.found & contains, order, None)
        failed |= small & ((wider == 0) | affinity.preferred & ~preferred[wider, columns])
        mask = np.where(small, wider, mask)

        allowed = masks_by_groups(self.groups, self._may_be_group)[mask, columns]
        failed |= (widths(self._z)[mask] > 1) & ~allowed
        self._fail(failed & self._managed, Reason.ALLOCATION_FAILS)
        mask = np.where(self._managed & ~failed, mask, 0)
        self._use(members(self._z)[mask].T)
        self._take_memory(share, mask)

    def _suffices(self, requested: Mapping[int, int], mask: npt.NDArray[np.int64]) -> Bools:
        inside = members(self._z)[mask].T
        enough = np.ones(len(mask), dtype=np.bool_)
        for row, amount in requested.items():
            pool = self._pools[row]
            enough &= ((pool.free * inside).sum(axis=0) >= amount) | ~pool.listed
        return enough

    def _take_memory(self, share: Share, mask: npt.NDArray[np.int64]) -> None:
        inside = members(self._z)[mask].T
        order = np.broadcast_to(np.arange(self._z)[:, None], inside.shape)
        for row, amount in share.memory.items():
            pool = self._pools[row]
            reusable = np.zeros(len(mask), dtype=np.int64)
            for held_under, left in pool.reusable_by_mask.items():
                reusable += np.where(mask == held_under, left, 0)
            needed = np.where(mask > 0, np.maximum(amount - reusable, 0), 0)
            pool.free -= take_in_order(np.where(inside, pool.free, 0), needed, order)
            remaining = np.maximum(reusable, amount) if share.kind is ContainerKind.INIT else reusable - amount
            for used in np.unique(mask[mask > 0]).tolist():
                if share.kind is not ContainerKind.INIT and used not in pool.reusable_by_mask:
                    continue
                left = pool.reusable_by_mask.setdefault(used, np.zeros(len(mask), dtype=np.int64))
                left[mask == used] = np.maximum(remaining, 0)[mask == used]
        self.groups = np.where(inside, mask, self.groups)
