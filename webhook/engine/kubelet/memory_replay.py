"""The memory groups of one node, which its NRT does not show, reconstructed from the node's pods.

1. Admit the node's pods again, in the order of binding, on the empty machine.
2. If the free amounts then equal the published ones, the replay is correct, and the groups of the kubelet's memory
   manager are those of the replay. Within a group of several NUMA nodes only the sum counts: memory that a pod gives
   back, or one that is rejected half-way, returns to the lowest of them first.
3. If not, nothing is known: a pod that has ended since was there when others came, or the order was different.

Only for the node that the scheduler has chosen; for a whole cluster it would take too long.
"""

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts
from webhook.engine.kubelet.admission import Admission
from webhook.engine.kubelet.demand import Demand
from webhook.engine.kubelet.machine_state import Machines, machines_of
from webhook.engine.kubelet.memory_manager import UNASSIGNED
from webhook.engine.kubelet.policy_groups import PolicyGroup
from webhook.engine.reason import Reason
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.resources import is_memory


def remembered_groups(snapshot: Snapshot, policy_group: PolicyGroup) -> npt.NDArray[np.int64] | None:
    """The group of each NUMA node (int64 [z, 1]) as a mask, 0 = none; None if it cannot be derived.

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
