"""Whether some state of a node's pods could let its kubelet admit a pod, although the empty node does not.

A kubelet gives each container the first NUMA nodes with room. So an empty node is not always the best one: an init
container of 1 CPU goes to NUMA 0, and the app that must use its CPU again is too large for NUMA 0. Once other pods fill
NUMA 0, both go to NUMA 1. A pod is denied only if no state helps; here that is proven from what no pod changes:

1. Each container (scope "pod": the pod as a whole) needs a set of NUMA nodes that has enough of everything allocatable.
   With a strict policy the set is also as narrow as the capacity allows for CPUs, for memory with huge pages, and for
   each kind of device: managers that need different widths never agree.
2. Such sets must exist for all containers together: the amounts of what runs at the same time fit; the CPUs of an init
   container are used again where they are; and NUMA nodes that share memory are one group for all. With
   single-numa-node, a container also passes the lower NUMA nodes by only if they are too small for it.
3. A policy that rejects no hint admits what all NUMA nodes together have.

What exceeds the budget, or is not known (devices near several NUMA nodes), counts as possible.

Source: kubernetes pkg/kubelet/cm/topologymanager (policy.go: mergePermutation), cpumanager/policy_static.go
(generateCPUTopologyHints), memorymanager/policy_static.go (calculateHints, isAffinityViolatingNUMAAllocations).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Nodes
from webhook.engine.kubelet.bitmask import subset_sums, widths
from webhook.engine.kubelet.demand import Demand, Share
from webhook.engine.kubelet.machine_state import devices_shared, devices_without_topology
from webhook.engine.kubelet.policy_groups import PolicyGroup, policy_groups
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import ContainerKind
from webhook.model.policy import NUMAPolicy, Scope

_STRICT: Final = frozenset({NUMAPolicy.RESTRICTED, NUMAPolicy.SINGLE_NUMA_NODE})
# Sets x nodes that are looked at for one pod: a table takes 2 MiB, and a container some milliseconds. With policy
# restricted that is 1,024 different nodes of 8 NUMA nodes, or 4 of 16; equal nodes count once.
_MOST_CELLS: Final = 1 << 18
# Steps of the search for sets for all containers together: some tens of milliseconds for all nodes. Eight containers
# on two NUMA nodes take at most 510.
_MOST_STEPS: Final = 2000
# More take too many steps.
_MOST_CONTAINERS: Final = 16
# Unions of sets whose amounts are compared in one step. Disjoint sets, as with single-numa-node, need one each.
_MOST_UNIONS: Final = 64


def may_admit(empty: Snapshot, request: PodRequest, nodes: Nodes) -> Bools:
    """Whether some state of each node's pods may let its kubelet admit the pod, bool [len(nodes)].

    empty: the snapshot of the empty cluster. nodes: indexes, ascending, of nodes that reject the pod when empty because
    of their NUMA nodes.
    """
    demand = Demand.of(request)
    possible = np.zeros(len(nodes), dtype=np.bool_)
    budget = _Budget()
    for policy_group in policy_groups(empty, request, nodes):
        # Where we choose the NUMA nodes, for the whole pod, no other state is better than an empty one.
        if policy_group.verdict is None and not policy_group.ours:
            first, kind = _different(empty, demand, policy_group.nodes)
            of_kind = _possible(empty, demand, policy_group.of(policy_group.nodes[first]), budget)
            possible[np.searchsorted(nodes, policy_group.nodes)] = of_kind[kind]
    return possible


@dataclass(slots=True)
class _Budget:
    cells: int = _MOST_CELLS
    steps: int = _MOST_STEPS


def _different(empty: Snapshot, demand: Demand, nodes: Nodes) -> tuple[Nodes, Nodes]:
    """The first of each kind of equal nodes (positions in `nodes`), and the kind of each node."""
    arrays = empty.node_arrays
    rows = [row for row in demand.names if row >= 0]
    columns = np.concatenate(
        [
            *(arrays.zone_allocatable[row][:, nodes] for row in rows),
            *(arrays.capacity[row][:, nodes] for row in rows),
            np.array([arrays.allocatable[row][nodes] for row in rows]).reshape(len(rows), len(nodes)),
        ]
    )
    _, first, kind = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    return first, kind.reshape(-1)


def _possible(empty: Snapshot, demand: Demand, policy_group: PolicyGroup, budget: _Budget) -> Bools:
    """The answer for nodes that are all different, bool [n]."""
    nodes = policy_group.nodes
    if policy_group.policy not in _STRICT:
        return _enough_together(empty, demand, nodes)
    possible = np.ones(len(nodes), dtype=np.bool_)
    shares = _shares(demand, policy_group)
    single = policy_group.policy is NUMAPolicy.SINGLE_NUMA_NODE
    each = empty.node_arrays.z if single else 1 << empty.node_arrays.z
    most = min(len(nodes), budget.cells // each)
    budget.cells -= most * each
    if not most or len(shares) > _MOST_CONTAINERS:
        return possible
    here = policy_group.of(nodes[:most])
    sets = [_Sets(empty, here, share) for share in shares]
    possible[:most] = np.logical_and.reduce([one.found.any(axis=0) for one in sets])
    if len(shares) > 1:
        for column in np.flatnonzero(possible[:most]).tolist():
            possible[column] = _Search(empty, here, shares, sets, column, budget).finds()
    return possible


def _shares(demand: Demand, policy_group: PolicyGroup) -> tuple[Share, ...]:
    """What is aligned as one."""
    return (demand.pod,) if policy_group.scope is Scope.POD else demand.containers


def _enough_together(empty: Snapshot, demand: Demand, nodes: Nodes) -> Bools:
    """Whether all NUMA nodes together have enough of everything, bool [n]."""
    enough = np.ones(len(nodes), dtype=np.bool_)
    for row, amount in demand.pod.amounts.items():
        total = np.maximum(empty.node_arrays.zone_allocatable[row][:, nodes], 0).sum(axis=0)
        if row in demand.pod.devices:
            total = total + devices_without_topology(empty, row, nodes)
        enough &= ~empty.node_arrays.listed[row].take(nodes) | (total >= amount)
    return enough


class _Sets:
    """The sets of NUMA nodes that strict kubelets could give a container if it were alone. K sets, n nodes."""

    def __init__(self, empty: Snapshot, policy_group: PolicyGroup, share: Share) -> None:
        self._single = policy_group.policy is NUMAPolicy.SINGLE_NUMA_NODE
        z = empty.node_arrays.z
        self.masks = 1 << np.arange(z) if self._single else np.arange(1, 1 << z)
        """int64 [K]."""
        self._width = np.ones(z, dtype=np.int64) if self._single else widths(z)[1:]
        self.found: Bools = np.ones((len(self.masks), len(policy_group.nodes)), dtype=np.bool_)
        """bool [K, n]."""
        self._look(empty, policy_group.nodes, share)

    def _look(self, empty: Snapshot, nodes: Nodes, share: Share) -> None:
        arrays = empty.node_arrays
        memory, managed = np.ones_like(self.found), np.zeros(len(nodes), dtype=np.bool_)
        for row, amount in share.amounts.items():
            listed = arrays.listed[row].take(nodes)
            enough = (self._sums(arrays.zone_allocatable[row][:, nodes]) >= amount) | ~listed
            self.found &= enough
            if row in share.memory:
                memory &= enough
                managed |= listed
                continue
            known = listed & ~devices_shared(empty, row, nodes) if row in share.devices else listed
            if row in share.cpu:  # align-by-socket prefers wider sets, too
                known = known & (arrays.numa_per_socket.take(nodes) == 0)
            self._narrow(self._sums(arrays.capacity[row][:, nodes]) >= amount, known)
        self._narrow(memory, managed)  # one width for memory and all huge pages

    def _sums(self, amounts: Amounts) -> Amounts:
        """What each set has of an amount (int64 [z, n]), int64 [K, n]."""
        known = np.maximum(amounts, 0)
        return known if self._single else subset_sums(known)[1:]

    def _narrow(self, enough: Bools, known: Bools) -> None:
        """Keep the narrowest sets that are enough (bool [K, n]), on nodes where that is known (bool [n])."""
        width = np.where(enough, self._width[:, None], len(self.masks)).min(axis=0)
        self.found &= ~(known & enough.any(axis=0)) | (self._width[:, None] == width)


@dataclass(slots=True)
class _Search:
    """Looks for sets for all containers of a pod on one node, in their order."""

    empty: Snapshot
    policy_group: PolicyGroup
    shares: Sequence[Share]
    sets: Sequence[_Sets]
    column: int
    """The node, as a position in the group."""
    budget: _Budget
    _has: dict[int, dict[int, int]] = field(default_factory=dict)
    """Row -> set -> what it has allocatable."""

    def finds(self) -> bool:
        """Whether there are such sets, or the budget is spent."""
        return self._place([], 0)

    def _place(self, chosen: list[int], inits: int) -> bool:
        """Place the containers after those that are placed. inits: where the CPUs of an init container wait for use."""
        if len(chosen) == len(self.shares):
            return self.policy_group.policy is not NUMAPolicy.SINGLE_NUMA_NODE or self._is_reached(chosen)
        share = self.shares[len(chosen)]
        sets = self.sets[len(chosen)]
        for mask in sets.masks[sets.found[:, self.column]].tolist():
            self.budget.steps -= 1
            if self.budget.steps < 0:
                return True
            if share.cpu and mask & inits != inits:
                continue
            memory = (other for other, one in zip(chosen, self.shares, strict=False) if one.memory)
            if share.memory and any(mask != other and mask & other for other in memory):
                continue
            left = inits
            if share.cpu:  # of a wider set it is not known which NUMA nodes the CPUs are of
                left = mask if share.kind is ContainerKind.INIT and not mask & (mask - 1) else 0
            if self._fit([*chosen, mask]) and self._place([*chosen, mask], left):
                return True
        return False

    def _fit(self, chosen: Sequence[int]) -> bool:
        """Whether what runs at the same time as the last container fits: each union of sets has enough."""
        last = len(chosen) - 1
        together = [
            (mask, share.amounts)
            for at, (mask, share) in enumerate(zip(chosen, self.shares, strict=False))
            if share.kind is not ContainerKind.INIT or at == last
        ]
        unions = {0}
        for mask, _ in together:
            unions |= {union | mask for union in unions if len(unions) <= _MOST_UNIONS}
        return all(
            sum(amounts.get(row, 0) for mask, amounts in together if not mask & ~union) <= self._allocatable(row, union)
            for row in {row for _, amounts in together for row in amounts}
            if self._lists(row)
            for union in unions
        )

    def _is_reached(self, chosen: Sequence[int]) -> bool:
        """Whether each container passes the lower NUMA nodes by, because they are too small for it.

        In the best state, a NUMA node has free exactly what is placed on it. What init containers hold is free again.
        """
        lists = {row for share in self.shares for row in share.amounts if self._lists(row)}
        return not any(
            all(self._free(lower, at, chosen, row) >= share.amounts[row] for row in lists & share.amounts.keys())
            for at, (mask, share) in enumerate(zip(chosen, self.shares, strict=True))
            if not share.devices  # which of them are near a NUMA node is not known well enough
            for lower in set(chosen)
            if lower < mask
        )

    def _free(self, mask: int, at: int, chosen: Sequence[int], row: int) -> int:
        """What is free of a NUMA node when the container at this position comes."""
        most, running, before = 0, 0, 0
        for index, share in enumerate(self.shares):
            if chosen[index] != mask:
                continue
            amount = share.amounts.get(row, 0)
            most = max(most, running + amount)
            if share.kind is not ContainerKind.INIT:
                running += amount
                before += amount * (index < at)
        return most - before

    def _lists(self, row: int) -> bool:
        return bool(self.empty.node_arrays.listed[row][self.policy_group.nodes[self.column]])

    def _allocatable(self, row: int, union: int) -> int:
        has = self._has.setdefault(row, {})
        if union not in has:
            zones = self.empty.node_arrays.zone_allocatable[row][:, self.policy_group.nodes[self.column]].tolist()
            has[union] = sum(max(amount, 0) for z, amount in enumerate(zones) if union >> z & 1)
        return has[union]
