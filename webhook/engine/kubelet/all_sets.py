"""The verdict of kubelets by all sets of NUMA nodes: for cases without a shorter way, in batches and within a budget.

1. Nodes with the same number of NUMA nodes are admitted together (webhook.engine.kubelet.admission).
2. Nodes beyond a decision's budget are judged by their totals, which may accept a node that rejects the pod.
3. A rejection that depends on what an NRT does not show is lifted if some state could admit the pod.
4. On the node that the scheduler has chosen, the memory groups that its NRT does not show are reconstructed from its
   pods (`remembered_groups`).
"""

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, Amounts, Bools, Bytes, amounts_at
from webhook.engine.kubelet.admission import Admission
from webhook.engine.kubelet.demand import Demand
from webhook.engine.kubelet.machine_state import Machines, machines_of
from webhook.engine.kubelet.memory_manager import UNASSIGNED
from webhook.engine.kubelet.policy_groups import PolicyGroup, policy_groups
from webhook.engine.kubelet.totals import pieces_suffice
from webhook.engine.numa_fit import Allocation, by_numa_id
from webhook.engine.reason import FITS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import is_memory


def remembered_groups(snapshot: Snapshot, policy_group: PolicyGroup) -> npt.NDArray[np.int64] | None:
    """The memory groups of one node, reconstructed: int64 [z, 1], the group of each NUMA node as a mask, 0 = none.

    1. Admit the node's pods again, in the order of binding, on the empty machine.
    2. If the free amounts then equal the published ones, the replay is correct, and the groups of the kubelet's memory
       manager are those of the replay. Within a group of several NUMA nodes only the sum counts: memory that a pod
       gives back, or one that is rejected half-way, returns to the lowest of them first.
    3. If not, nothing is known, and the answer is None: a pod that has ended since was there when others came, or the
       order was different.

    Only for the node that the scheduler has chosen; for a whole cluster it would take too long.
    policy_group: the only node of the snapshot.
    """
    if snapshot.residents is None:
        return None
    resources = snapshot.node_arrays.resources
    demands = [Demand.of_resident(pod, resources) for pod in snapshot.residents if pod.containers]
    shares = [share for demand in demands for share in demand.containers]
    names = {row: name for demand in demands for row, name in demand.names.items()}
    machines = machines_of(snapshot, policy_group, Demand.of_shares(shares, names))
    if not machines.pools:
        return None
    published = {row: pool.free.copy() for row, pool in machines.pools.items()}
    groups = _empty(snapshot, policy_group, machines)
    for demand in demands:
        machines.groups = groups
        admission = Admission(machines, demand)
        admission.run()
        if admission.reason[0] != Reason.FITS:
            return None
        groups = admission.groups
        for pool in machines.pools.values():
            pool.reusable[:] = 0
            pool.reusable_by_mask.clear()
    for row, pool in machines.pools.items():
        moved = pool.free - published[row]
        if row in machines.memory_rows:
            moved = _by_group(moved, groups)
        if moved.any():
            return None
    return groups


def _by_group(amounts: Amounts, groups: npt.NDArray[np.int64]) -> Amounts:
    """The sum of the amounts over the group of each NUMA node of one node; int64 [z, 1] all."""
    together = (groups == groups.T) & (groups > UNASSIGNED)
    np.fill_diagonal(together, val=True)
    summed: Amounts = together.astype(np.int64) @ amounts
    return summed


def _empty(snapshot: Snapshot, policy_group: PolicyGroup, machines: Machines) -> npt.NDArray[np.int64]:
    """Make all resources of the machines free; returns their groups: none."""
    node_arrays = snapshot.node_arrays
    for row, pool in machines.pools.items():
        pool.free = np.maximum(node_arrays.zone_allocatable[row][: len(pool.free), policy_group.nodes], 0)
        if not is_memory(node_arrays.resources.names[row]):
            named = node_arrays.allocatable[row][policy_group.nodes]
            pool.without_topology = np.maximum(named - pool.free.sum(axis=0), 0)
    return np.zeros((len(next(iter(machines.pools.values())).free), len(policy_group.nodes)), dtype=np.int64)


# Tables of 2^z masks by nodes: 256 Ki entries are 2 MiB of int64 and stay in the cache.
_BATCH: Final = 1 << 18
# The most table entries of one decision, for all containers together; 100 ns each, about 50 ms. A pod of one container
# can be tried on 2,000 nodes of 8 NUMA nodes. Nodes beyond that count as fitting: they rank last, and are judged
# individually if the scheduler picks them.
MOST_ENTRIES: Final = 1 << 19
# The fixed cost of a container, however few the nodes: about 0.8 ms.
SETUP_ENTRIES: Final = 1 << 13


def nodes_within(entries: int, containers: int, z: int) -> int:
    """How many nodes of z NUMA nodes so many table entries suffice for."""
    return max(entries // containers - SETUP_ENTRIES, 0) >> z


class AllSets:
    """One pod on nodes of one snapshot."""

    def __init__(self, snapshot: Snapshot, request: PodRequest) -> None:
        self._snapshot = snapshot
        self._request = request
        self._left = MOST_ENTRIES

    @cached_property
    def demand(self) -> Demand:
        """What the pod requests from a kubelet."""
        return Demand.of(self._request)

    def admit(self, policy_group: PolicyGroup) -> tuple[Bytes, npt.NDArray[np.int64]]:
        """Reason (uint8 [n]) and mask (int64 [n]) of each node, in batches, within the decision's budget."""
        n = len(policy_group.nodes)
        reason: Bytes = np.zeros(n, dtype=np.uint8)
        mask = np.zeros(n, dtype=np.int64)
        demand = self.demand
        if not demand.names:
            return reason, mask
        zones = np.count_nonzero(self._snapshot.node_arrays.zone_ids[:, policy_group.nodes] != NO_ZONE, axis=0)
        for z in np.flatnonzero(np.bincount(zones)).tolist():
            of_width = np.flatnonzero(zones == z)
            tried = of_width[: nodes_within(self._left, len(demand.containers), z)]
            self._left -= len(demand.containers) * (SETUP_ENTRIES + (len(tried) << z))
            size = max(1, _BATCH >> z)
            for start in range(0, len(tried), size):
                batch = tried[start : start + size]
                reason[batch], used = self._admitted(policy_group.at(batch), demand)
                if policy_group.policy is not NUMAPolicy.NONE:
                    mask[batch] = used
            untried = of_width[len(tried) :]
            if len(untried):
                reason[untried] = self._by_sums(policy_group.at(untried), demand)
        return reason, mask

    def masks(self, policy_group: PolicyGroup) -> npt.NDArray[np.int64]:
        """The NUMA nodes used on a few nodes that admit the pod (int64 [n])."""
        self._left = MOST_ENTRIES
        return self.admit(policy_group)[1]

    def split(self, policy_group: PolicyGroup) -> Allocation:
        """What the pod would take of each NUMA node of the group's only node."""
        demand = self.demand
        if policy_group.verdict is not None or policy_group.policy is NUMAPolicy.NONE or not demand.names:
            return ()
        machines = self._machines(policy_group, demand)
        z = len(next(iter(machines.pools.values())).capacity)
        if len(demand.containers) * (SETUP_ENTRIES + (1 << z)) > MOST_ENTRIES:
            return ()
        before = {row: machines.pools[row].free.copy() for row in demand.names if row in machines.pools}
        admission = Admission(machines, demand)
        admission.run()
        if admission.reason[0] != Reason.FITS:
            return ()
        taken = {demand.names[row]: (free - machines.pools[row].free)[:, 0] for row, free in before.items()}
        return by_numa_id(self._snapshot.node_arrays.zone_ids[:, policy_group.nodes[0]], taken)

    @property
    def groups_decide(self) -> bool:
        """Whether the memory groups of the snapshot's only node are known and affect the pod."""
        return bool(self.demand.pod.memory) and self._groups is not None

    @cached_property
    def _groups(self) -> npt.NDArray[np.int64] | None:
        """The memory groups of the only node of a snapshot that lists its pods, if they can be derived and matter."""
        if self._snapshot.residents is None:
            return None
        (policy_group,) = policy_groups(self._snapshot, self._request, np.array([0]))
        # A kubelet with single-numa-node has no groups.
        if policy_group.ours or policy_group.policy is NUMAPolicy.SINGLE_NUMA_NODE:
            return None
        return remembered_groups(self._snapshot, policy_group)

    def _machines(self, policy_group: PolicyGroup, demand: Demand) -> Machines:
        machines = machines_of(self._snapshot, policy_group, demand)
        machines.groups = self._groups
        return machines

    def _admitted(self, policy_group: PolicyGroup, demand: Demand) -> tuple[Bytes, npt.NDArray[np.int64]]:
        admission = Admission(self._machines(policy_group, demand), demand)
        admission.run()
        reason = admission.reason
        uncertain = np.flatnonzero((reason != Reason.FITS) & admission.uncertain)
        if len(uncertain):
            spared = uncertain[self._may_be_admitted(policy_group.at(uncertain), demand)]
            reason[spared] = Reason.FITS
            # It is unknown on which NUMA nodes.
            admission.mask[spared] = 0
        reason[(reason == Reason.FITS) & ~pieces_suffice(self._snapshot, policy_group, demand)] = (
            Reason.ALLOCATION_FAILS
        )
        return reason, np.where(reason == Reason.FITS, admission.mask, 0)

    def _may_be_admitted(self, policy_group: PolicyGroup, demand: Demand) -> Bools:
        """Whether nodes (bool [n]) that reject by the visible state may admit by the hidden state.

        No hidden state changes these: there must be enough in total, and where the policy rejects, each container by
        itself, or the pod with scope "pod", must have a preferred hint now.
        """
        machines = machines_of(self._snapshot, policy_group, demand)
        possible = np.ones(len(policy_group.nodes), dtype=np.bool_)
        for row, amount in demand.pod.amounts.items():
            pool = machines.pools[row]
            possible &= ~pool.listed | (pool.total() >= amount)
        if policy_group.policy in {NUMAPolicy.RESTRICTED, NUMAPolicy.SINGLE_NUMA_NODE}:
            for share in (demand.pod,) if policy_group.scope is Scope.POD else demand.containers:
                alone = Admission(machines_of(self._snapshot, policy_group, demand), demand.alone(share))
                alone.run()
                possible &= alone.reason == Reason.FITS
        return possible

    def _by_sums(self, policy_group: PolicyGroup, demand: Demand) -> Bytes:
        """Reason (uint8 [n]) of nodes beyond the budget: whether there is enough of everything in total."""
        snapshot, nodes = self._snapshot, policy_group.nodes
        enough = pieces_suffice(snapshot, policy_group, demand)
        for row, amount in demand.pod.amounts.items():
            if row not in demand.pod.devices:
                total = amounts_at(snapshot.free(row), nodes).sum(axis=0)
                enough &= ~snapshot.node_arrays.listed[row].take(nodes) | (total >= amount)
        return np.where(enough, FITS, Reason.ALLOCATION_FAILS).astype(np.uint8)
