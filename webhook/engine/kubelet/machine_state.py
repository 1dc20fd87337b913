"""From a snapshot's arrays to the remaining resources of some kubelets' managers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import NO_ZONE, UNLISTED, Bools, Ids, Nodes, amounts_at
from webhook.engine.kubelet.bitmask import as_mask
from webhook.engine.kubelet.demand import Demand
from webhook.engine.kubelet.memory_manager import grouped_by_hints
from webhook.engine.kubelet.policy_groups import PolicyGroup
from webhook.engine.kubelet.pools import Pool
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import CPU, is_device, is_memory


@dataclass(slots=True)
class Machines:
    """n nodes with the same policy and scope; z positions."""

    policy: NUMAPolicy
    scope: Scope
    machine: npt.NDArray[np.int64]
    """int64 [n]: mask of the node's NUMA nodes."""
    distances: Ids | None
    """int16 [z, z, n] where the node prefers the closest NUMA nodes (all n do), else None."""
    pools: dict[int, Pool]
    """Row -> pool, of every resource the pod names and every kind of memory of the cluster."""
    memory_rows: tuple[int, ...]
    """Every kind of memory, named by the pod or not."""
    groups: npt.NDArray[np.int64] | None = None
    """int64 [z, n]: the groups, if they are known for certain (webhook.engine.kubelet.all_sets)."""
    grouped: Bools | None = None
    """bool [z, n]: NUMA nodes that are certainly in a group of several; None: none is."""


def machines_of(snapshot: Snapshot, policy_group: PolicyGroup, demand: Demand) -> Machines:
    """The nodes of a group, with a pool for every resource of the demand and for every kind of memory."""
    node_arrays, nodes = snapshot.node_arrays, policy_group.nodes
    exists = node_arrays.zone_ids[:, nodes] != NO_ZONE
    z = int(exists.any(axis=1).sum())
    memory = tuple(row for row, name in enumerate(node_arrays.resources) if is_memory(name))
    wanted = {row for share in demand.containers for row in share.amounts}
    grouped = grouped_by_hints(snapshot, nodes) if demand.pod.memory else None
    return Machines(
        policy=policy_group.policy,
        scope=policy_group.scope,
        machine=as_mask(exists[:z]),
        distances=node_arrays.distances[:z, :z, nodes] if policy_group.closest else None,
        pools={row: _pool(snapshot, row, nodes, z) for row in wanted.union(memory)},
        memory_rows=memory,
        grouped=None if grouped is None else grouped[:z],
    )


def devices_without_topology(snapshot: Snapshot, row: int, nodes: Nodes) -> npt.NDArray[np.int64]:
    """int64 [n]: an upper bound of free devices near no NUMA node: the node's capacity or free amount beyond theirs."""
    node_arrays = snapshot.node_arrays
    near = amounts_at(node_arrays.capacity[row], nodes).sum(axis=0)
    free = amounts_at(snapshot.free(row), nodes).sum(axis=0)
    # Devices near several NUMA nodes make either difference too small, but rarely both.
    beyond: npt.NDArray[np.int64] = np.maximum(
        node_arrays.allocatable[row][nodes] - near, snapshot.node_free(row)[nodes] - free
    )
    np.maximum(beyond, 0, out=beyond)
    return beyond


def devices_shared(snapshot: Snapshot, row: int, nodes: Nodes) -> Bools:
    """Whether devices must be near several NUMA nodes (bool [n]): the NUMA nodes' sum exceeds the node's amount."""
    near = amounts_at(snapshot.node_arrays.capacity[row], nodes).sum(axis=0)
    named = snapshot.node_arrays.allocatable[row][nodes]
    shared: Bools = (named != UNLISTED) & (near > named)
    return shared


def _pool(snapshot: Snapshot, row: int, nodes: Nodes, z: int) -> Pool:
    node_arrays = snapshot.node_arrays
    name = node_arrays.resources.names[row]
    device = is_device(name)
    # For the narrowest width, reserved CPUs count; memory reserved for the system does not.
    by_capacity = node_arrays.zone_allocatable if is_memory(name) else node_arrays.capacity
    capacity = np.maximum(by_capacity[row][:z, nodes], 0)
    free = snapshot.free(row)[:z, nodes]
    nowhere = np.zeros(len(nodes), dtype=np.int64)
    per_socket = node_arrays.numa_per_socket.take(nodes) * (name == CPU)
    by_socket = per_socket > 0
    spread = by_socket | (node_arrays.spread_cpus.take(nodes) & (name == CPU))
    return Pool(
        capacity=capacity,
        free=np.maximum(free, 0),
        listed=np.asarray((free != UNLISTED).any(axis=0)),
        without_topology=devices_without_topology(snapshot, row, nodes) if device else nowhere,
        shared=devices_shared(snapshot, row, nodes) if device else np.zeros(len(nodes), dtype=np.bool_),
        reusable=np.zeros_like(capacity),
        reusable_by_mask={},
        per_socket=per_socket if by_socket.any() else None,
        spread=spread if spread.any() else None,
    )
