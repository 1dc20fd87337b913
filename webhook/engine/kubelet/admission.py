"""Admission by a kubelet, over all sets of NUMA nodes: for cases that the short way by single NUMA nodes leaves open.

For n nodes of one policy and scope, container after container:
1. Hints of the device, CPU and memory managers, merged into one affinity (scope "pod": once, for the whole pod).
2. The policy rejects (restricted: hints that are not preferred), or the managers allocate, in this order:
   devices and CPUs inside the affinity first, then outside; memory strictly, widening the affinity if necessary.
3. If a manager cannot allocate, that is an error: the pod is rejected although its hint was accepted.

An NRT does not show memory groups, or how CPUs and devices of several NUMA nodes are spread. A rejection is certain
only if it follows from what is known. All others are marked, so that no node that would take the pod is rejected:
- A container's devices and CPUs over several NUMA nodes leave their resource open for the containers after it. Its
  memory is known, because it is on the whole affinity.
- A container that needs an open resource leaves open all that it takes. Where a policy rejects by hints, the other
  resources may still show that no state of the open ones gives the container a preferred hint.

Source: kubernetes pkg/kubelet/cm/topologymanager/scope*.go, {devicemanager,cpumanager,memorymanager}.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools, Bytes
from webhook.engine.kubelet.bitmask import as_mask, members, subset_sums, widths
from webhook.engine.kubelet.demand import Demand, Share
from webhook.engine.kubelet.hints import Hints, MemoryMasks, best, memory_masks, merge, piece_hints, preferable
from webhook.engine.kubelet.machine_state import Machines
from webhook.engine.kubelet.memory_manager import UNKNOWN_GROUP, masks_by_groups, possible_groups, published_groups
from webhook.engine.kubelet.pools import take_cpus, take_in_order
from webhook.engine.reason import Reason
from webhook.formats.kubernetes.pod import ContainerKind
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
    whether a rejection follows from what is not known, `groups` (int64 [z, n]) the memory groups afterwards.
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
            if machines.grouped is not None:
                # A group that is known in part is known if it cannot be larger.
                whole = as_mask(machines.grouped) == machines.machine
                self.groups = np.where(whole & (self.groups == UNKNOWN_GROUP), machines.machine, self.groups)
        self.uncertain: Bools = np.zeros(n, dtype=np.bool_)
        self._open_memory: Bools = (self.groups == UNKNOWN_GROUP).any(axis=0)
        self._open_affinity: Bools = np.zeros(n, dtype=np.bool_)
        # Of devices and CPUs, by row: the nodes where their spread is open (bool [n]), and the most that each NUMA
        # node may have free there (int64 [z, n]).
        self._open: dict[int, Bools] = {}
        self._most: dict[int, Amounts] = {}
        if machines.scope is Scope.CONTAINER:
            for row in demand.reused_devices:
                self._open[row] = machines.pools[row].shared
        elif machines.policy is NUMAPolicy.BEST_EFFORT and len(demand.containers) > 1:
            # One device near two NUMA nodes and one near none look like two. The pod's real affinity may then be wider,
            # and its containers may meet other memory groups.
            for row, amount in demand.pod.devices.items():
                pool = machines.pools[row]
                self._open_affinity |= pool.listed & (pool.free.max(axis=0) < amount)

    def run(self) -> None:
        """Admit the containers in their order."""
        pod = self._demand.pod
        together = self._affinity(pod) if self._machines.scope is Scope.POD else None
        for share in self._demand.containers:
            depends = self._depends(share if together is None else pod)
            self._allocate(share, together or self._affinity(share), depends)
            for row in (*share.devices, *share.cpu):
                self._open[row] = self._open.get(row, depends) | depends
            if share.memory:
                self._open_memory = self._open_memory | depends

    def _depends(self, share: Share) -> Bools:
        """Where the affinity of a share follows from what is open (bool [n])."""
        rows = [self._open[row] for row in (*share.devices, *share.cpu) if row in self._open]
        if self._machines.policy is NUMAPolicy.NONE:  # only memory has one
            rows = []
        if share.memory:
            rows.append(self._open_memory)
        depends: Bools = np.logical_or.reduce([self._open_affinity, *rows])
        return depends

    def _fail(self, failed: Bools, reason: Reason, depends: Bools) -> None:
        """Reject the pod on nodes (bool [n]). depends: where that follows from what is open."""
        first = failed & (self.reason == Reason.FITS)
        self.reason[first] = reason
        self.uncertain |= first & depends
        self.uncertain &= ~failed | depends

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
            reason = Reason.NO_SINGLE_NUMA_NODE if single else Reason.NOT_ALIGNED
            self._fail(~merged.preferred, reason, self._may_be_preferred(share, lists))
        given = np.ones(n, dtype=np.bool_)
        if machines.policy is NUMAPolicy.SINGLE_NUMA_NODE:
            given = merged.mask != machines.machine
        return Affinity(merged.mask, merged.preferred, given)

    def _may_be_preferred(self, share: Share, lists: Sequence[Hints]) -> Bools:
        """Where some state of what is open may give the share a preferred hint (bool [n]). lists: its hints now."""
        machines = self._machines
        depends = self._depends(share)
        if not depends.any():
            return depends
        pieces = (*share.devices.items(), *share.cpu.items())
        best_case = []
        for (row, amount), hints in zip(pieces, lists, strict=False):
            opened = self._open.get(row)
            if opened is None or not opened.any():
                best_case.append(hints)
                continue
            pool = self._pools[row]
            most = self._most.get(row, pool.free + pool.reusable)
            found = preferable(pool, amount) & (subset_sums(most) >= amount) & (pool.total() >= amount)
            preferred = np.where(opened, found, hints.preferred)
            best_case.append(Hints(preferred, hints.other, hints.any_preferred, hints.any_other))
        if share.memory:
            of_memory = lists[-1]
            any_preferred = of_memory.any_preferred | self._open_memory
            best_case.append(Hints(of_memory.preferred, of_memory.other, any_preferred, of_memory.any_other))
        merged = merge(best_case, machines.policy, machines.machine, None, preferred_only=True)
        return depends & merged.preferred

    def _allocate(self, share: Share, affinity: Affinity, depends: Bools) -> None:
        inside = members(self._z)[affinity.mask].T
        for row in (*share.devices, *share.cpu):
            now = self._pools[row].free + self._pools[row].reusable
            self._most[row] = np.where(self._is_open(row), self._most.get(row, now), now)
        for row, amount in share.devices.items():
            self._allocate_devices(row, amount, share.kind, inside, affinity.given)
        for row, amount in share.cpu.items():
            self._allocate_cpus(row, amount, share.kind, inside, affinity.given)
        if share.memory:
            self._allocate_memory(share, affinity, depends)

    def _use(self, taken: Bools) -> None:
        self.mask |= as_mask(taken)

    def _allocate_devices(self, row: int, amount: int, kind: ContainerKind, inside: Bools, given: Bools) -> None:
        pool = self._pools[row]
        self._fail(pool.listed & (pool.total() < amount), Reason.ALLOCATION_FAILS, self._is_open(row))
        order = np.broadcast_to(np.arange(self._z)[:, None], pool.free.shape)
        needed = np.full(len(given), amount, dtype=np.int64)
        reused = take_in_order(pool.reusable, needed, order)
        needed -= reused.sum(axis=0)
        allowed = np.where(inside & given, pool.free, 0)
        near = take_in_order(allowed, needed, order)
        self._note_split(row, pool.reusable, reused)
        self._note_split(row, allowed, near)
        needed -= near.sum(axis=0)
        far = take_in_order(pool.free - near, needed, order)
        needed -= far.sum(axis=0)
        if kind is not ContainerKind.INIT:
            pool.without_topology -= np.clip(needed, 0, pool.without_topology)
        self._use(reused + near + far > 0)
        pool.take_pieces(reused + near + far, kind)

    def _allocate_cpus(self, row: int, amount: int, kind: ContainerKind, inside: Bools, given: Bools) -> None:
        pool = self._pools[row]
        self._fail(pool.listed & (pool.total() < amount), Reason.ALLOCATION_FAILS, self._is_open(row))
        available = pool.free + pool.reusable
        needed = np.full(len(given), amount, dtype=np.int64)
        near = take_cpus(available, pool.capacity, inside & given, needed)
        far = take_cpus(available - near, pool.capacity, np.ones_like(inside), needed - near.sum(axis=0))
        whole = pool.capacity
        aligned = inside & given
        if pool.per_socket is not None:  # CPUs of the whole socket count as aligned, whatever its NUMA nodes
            aligned = aligned | (pool.per_socket > 1) & given
        self._note_split(row, np.where(aligned, available, 0), near, whole)
        self._note_split(row, available - near, far, whole)
        self._use(near + far > 0)
        pool.take_pieces(near + far, kind)

    def _is_open(self, row: int) -> Bools:
        return self._open.get(row, self._open_affinity)

    def _note_split(self, row: int, available: Amounts, taken: Amounts, whole: Amounts | None = None) -> None:
        """Note where it is unknown how a part of several NUMA nodes' capacity is spread.

        Of two NUMA nodes with all their CPUs free (`whole`, capacities) the kubelet fills the first.
        """
        if self._machines.scope is Scope.POD or self._machines.policy is NUMAPolicy.SINGLE_NUMA_NODE:
            return
        total = taken.sum(axis=0)
        in_part = (total > 0) & (total < available.sum(axis=0))
        several = (available > 0).sum(axis=0)
        if whole is None:
            known = several < 2
        else:
            known = (several < 2) | (several == 2) & ((available == 0) | (available == whole)).all(axis=0)
        if (spread := self._pools[row].spread) is not None:
            known &= ~spread | (several < 2)
        self._open[row] = self._is_open(row) | in_part & ~known

    def _memory_masks(self, share: Share) -> MemoryMasks:
        return memory_masks(self._pools, share.memory, self._by_groups())

    def _by_groups(self) -> Bools:
        return masks_by_groups(self.groups, self._may_be_group, self._machines.grouped)

    def _allocate_memory(self, share: Share, affinity: Affinity, depends: Bools) -> None:
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

        allowed = self._by_groups()[mask, columns]
        failed |= (widths(self._z)[mask] > 1) & ~allowed
        failed &= self._managed
        if np.count_nonzero(failed & depends):
            depends = depends & (self._open_memory | self._may_be_given(share))
        self._fail(failed, Reason.ALLOCATION_FAILS, depends)
        mask = np.where(self._managed & ~failed, mask, 0)
        self._use(members(self._z)[mask].T)
        self._take_memory(share, mask)

    def _may_be_given(self, share: Share) -> Bools:
        """Where some affinity would let the memory manager allocate (bool [n]); groups exclude no single NUMA node."""
        allowed = self._by_groups() | (widths(self._z)[:, None] == 1)
        possible: Bools = np.logical_or.reduce(memory_masks(self._pools, share.memory, allowed).found, axis=0)
        return possible

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
