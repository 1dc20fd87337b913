"""What an admitted pod takes of each NUMA node of one node: the short way, in plain integers.

The pod's NUMA nodes are known. The amounts follow from them if
1. there is only one: everything is taken there, and resources of init containers are reused; or
2. one container is admitted by a restricted kubelet: then its NUMA nodes are its affinity, and everything is taken
   inside (webhook.engine.kubelet.policy_restricted). CPUs: from completely free NUMA nodes while that many are needed,
   then from the fullest first; memory: from the lowest first; or
3. one container is admitted by a best-effort kubelet over several (webhook.engine.kubelet.policy_best_effort).

Everything else takes the admission itself (webhook.engine.kubelet.admission). The split of ten nodes of 8
NUMA nodes in the cluster of make bench takes 88 to 146 times as long without 1. and 2., 1.9 to 2.8 times without 3.
"""

from collections.abc import Mapping

from webhook.engine.kubelet.demand import Demand
from webhook.engine.kubelet.policy_best_effort import spread
from webhook.engine.kubelet.policy_groups import PolicyGroup
from webhook.engine.kubelet.totals import totals
from webhook.engine.numa_fit import Allocation, by_numa_id
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy


def split_inside(snapshot: Snapshot, demand: Demand, policy: NUMAPolicy, node: int, mask: int) -> Allocation | None:
    """The amounts taken of each NUMA node in the mask; None if they do not follow from it.

    node: an index; mask: of the NUMA nodes that the pod uses, 0 = not known.
    """
    alone = mask.bit_count() == 1
    restricted = policy is NUMAPolicy.RESTRICTED and len(demand.containers) == 1 and not demand.pod.devices
    if demand.init_only_memory or not mask or not (alone or restricted):
        return None
    node_arrays = snapshot.node_arrays
    ids = node_arrays.zone_ids[:, node].tolist()
    taken: dict[int, dict[str, int]] = {position: {} for position in range(len(ids)) if mask >> position & 1}
    for row, amount in demand.pod.amounts.items():
        if not node_arrays.listed[row, node]:
            continue
        column = snapshot.free(row)[:, node].tolist()
        free = {position: max(column[position], 0) for position in taken}
        if sum(free.values()) < amount:
            return None
        order = list(free)
        if row in demand.pod.cpu and not alone:
            order = _cpu_order(free, node_arrays.capacity[row, :, node].tolist(), amount)
        needed = amount
        for position in order:
            here = min(free[position], needed)
            needed -= here
            if here:
                taken[position][demand.names[row]] = here
    return tuple((ids[position], amounts) for position, amounts in taken.items() if amounts)


def split_over_several(snapshot: Snapshot, demand: Demand, policy_group: PolicyGroup) -> Allocation | None:
    """The amounts on a best-effort group's only node, where no NUMA node holds the pod; None: not known."""
    by_totals = totals(snapshot, demand, policy_group.nodes)
    if by_totals is None or not demand.pod.amounts or not (by_totals.sure & by_totals.suffice)[0]:
        return None
    (share,) = demand.containers
    found = spread(snapshot, share, policy_group)
    if found.open[0]:
        return None
    taken = {demand.names[row]: amounts[:, 0] for row, amounts in zip(share.amounts, found.taken, strict=True)}
    return by_numa_id(snapshot.node_arrays.zone_ids[:, policy_group.nodes[0]], taken)


def _cpu_order(free: Mapping[int, int], capacity: list[int], amount: int) -> list[int]:
    """The NUMA nodes in the order in which webhook.engine.kubelet.pools.take_cpus takes CPUs from them."""
    fullest_first = sorted(free, key=free.__getitem__)
    whole = []
    needed = amount
    for position in fullest_first:
        if free[position] == capacity[position] and needed >= free[position] > 0:
            whole.append(position)
            needed -= free[position]
    return whole + [position for position in fullest_first if position not in whole]
