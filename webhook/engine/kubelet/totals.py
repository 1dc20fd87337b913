"""Admission of a pod with one container by a kubelet that rejects no hint: it fits if there is enough in total.

1. With best-effort or none the Topology Manager rejects nothing. Devices and CPUs are taken inside the affinity first,
   then outside.
2. Memory must be on one set of NUMA nodes. The manager widens the affinity up to the whole machine, and no memory group
   stops it for the first container.
3. So if no single NUMA node holds everything, but all together do, the pod is admitted over two or more.

The exact NUMA nodes take a search over all sets (webhook.engine.kubelet.admission). Without totals a
decision over 5,000 nodes of 8 NUMA nodes takes 48 to 91 times as long (make bench, best-effort).
"""

from dataclasses import dataclass

import numpy as np

from webhook.engine.arrays import UNLISTED, Amounts, Bools, Nodes, all_nodes, amounts_at
from webhook.engine.kubelet.demand import Demand
from webhook.engine.kubelet.machine_state import devices_without_topology
from webhook.engine.kubelet.policy_groups import PolicyGroup
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import ContainerKind
from webhook.model.policy import NUMAPolicy


@dataclass(frozen=True, slots=True)
class Totals:
    """The verdict on n nodes by their totals."""

    suffice: Bools
    """bool [n]: enough of everything on all NUMA nodes together."""
    sure: Bools
    """bool [n]: the totals decide, and more than one NUMA node is used."""


def totals(snapshot: Snapshot, demand: Demand, nodes: Nodes) -> Totals | None:
    """Judge nodes that reject no hint, where no NUMA node holds the whole demand; None if totals do not decide."""
    if len(demand.containers) != 1:
        return None
    (share,) = demand.containers
    if share.kind is not ContainerKind.APP or 0 in share.amounts.values():
        return None
    node_arrays = snapshot.node_arrays
    suffice = np.ones(len(nodes), dtype=np.bool_)
    sure = np.ones(len(nodes), dtype=np.bool_)
    for row, amount in share.amounts.items():
        unlisted = ~node_arrays.listed[row].take(nodes)
        suffice &= unlisted | (_total(snapshot.free(row), nodes) >= amount)
        if row in share.memory:
            # More is free than exists: an inconsistent NRT.
            sure &= unlisted | ~suffice | (_total(node_arrays.zone_allocatable[row], nodes) >= amount)
        elif row in share.devices:
            # Devices near no NUMA node could complete those of one NUMA node.
            sure &= unlisted | (devices_without_topology(snapshot, row, nodes) == 0)
    return Totals(suffice, sure)


def pieces_suffice(snapshot: Snapshot, policy_group: PolicyGroup, demand: Demand) -> Bools:
    """Whether there are enough devices and CPUs that are not bound to NUMA nodes, wherever they are (bool [n])."""
    nodes = policy_group.nodes
    enough = np.ones(len(nodes), dtype=np.bool_)
    for row, amount in demand.pod.devices.items():
        # Even if NUMA nodes list them: a device near two of them is counted twice.
        named = snapshot.node_arrays.allocatable[row].take(nodes) > UNLISTED
        enough &= ~named | (snapshot.node_free(row).take(nodes) >= amount)
    if policy_group.policy is NUMAPolicy.NONE:
        for row, amount in {**demand.pod.cpu, **demand.pod.devices}.items():
            total = _total(snapshot.free(row), nodes)
            if row in demand.pod.devices:
                total += devices_without_topology(snapshot, row, nodes)
            enough &= ~snapshot.node_arrays.listed[row].take(nodes) | (total >= amount)
    return enough


def _total(plane: Amounts, nodes: Nodes) -> Amounts:
    if len(nodes) * 2 > plane.shape[1]:
        of_all: Amounts = amounts_at(plane, all_nodes(plane.shape[1])).sum(axis=0)
        return of_all if len(nodes) == len(of_all) else of_all.take(nodes)
    total: Amounts = amounts_at(plane, nodes).sum(axis=0)
    return total
