"""The verdict of kubelets by all sets of NUMA nodes: for cases without a shorter way, in batches and within a budget.

1. Nodes with the same number of NUMA nodes are admitted together (webhook.engine.kubelet.admission).
2. Nodes beyond a decision's budget are judged by their totals, which may accept a node that rejects the pod.
3. A rejection that depends on what an NRT does not show is lifted if some state could admit the pod.
"""

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, Bools, Bytes, amounts_at
from webhook.engine.kubelet.admission import Admission
from webhook.engine.kubelet.demand import Demand
from webhook.engine.kubelet.machine_state import Machines, machines_of
from webhook.engine.kubelet.memory_replay import remembered_groups
from webhook.engine.kubelet.policy_groups import PolicyGroup, policy_groups
from webhook.engine.kubelet.totals import pieces_suffice
from webhook.engine.numa_fit import Allocation, by_numa_id
from webhook.engine.reason import FITS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy, Scope

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
