"""What one container requests on n nodes and what these have: one row per resource, and where that is incomplete."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Nodes, amounts_at, every
from webhook.engine.kubelet.bitmask import counts
from webhook.engine.kubelet.demand import Share
from webhook.engine.kubelet.hints import narrowest_width
from webhook.engine.kubelet.machine_state import devices_shared
from webhook.engine.kubelet.policy_groups import PolicyGroup
from webhook.engine.numa_fit import Masks
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.resources import is_memory


@dataclass(frozen=True, slots=True)
class Row:
    """One resource of a share on n nodes; amounts int64 [z, n], 0 where a NUMA node does not list it."""

    amount: int
    capacity: Amounts
    free: Amounts
    memory: bool

    def at(self, where: Nodes) -> "Row":
        """The same row for some of the nodes."""
        return Row(self.amount, self.capacity.take(where, axis=1), self.free.take(where, axis=1), self.memory)

    def narrowest(self) -> Masks:
        """int64 [n]: the fewest NUMA nodes with enough capacity; more than there are if all together are too few."""
        capacity = self.capacity
        most = capacity.max(axis=0)
        if every(most == most[:1]):
            width: Masks = np.full(len(most), -(-self.amount // max(int(most.max(initial=0)), 1)), dtype=np.int64)
        else:
            width = -(-self.amount // np.maximum(most, 1))
        # If all NUMA nodes with any have the same amount, that is the capacity.
        (unequal,) = (capacity.min(axis=0) != most).nonzero()
        if len(unequal):
            some = capacity.take(unequal, axis=1)
            (uneven,) = (some.sum(axis=0) != most[unequal] * counts(some > 0)).nonzero()
            if len(uneven):
                width[unequal[uneven]] = narrowest_width([(some.take(uneven, axis=1), self.amount)])
        # As many as the request has bytes, if no capacity is listed.
        return np.minimum(width, len(capacity) + 1)


def rows_of(snapshot: Snapshot, share: Share, nodes: Nodes) -> list[Row]:
    """The rows of a share, in the order of its amounts."""
    return [_row(snapshot, row, amount, nodes) for row, amount in share.amounts.items()]


def unsure(snapshot: Snapshot, share: Share, rows: Sequence[Row], policy_group: PolicyGroup) -> Bools:
    """Nodes (bool [n]) whose rows may be incomplete.

    No NUMA node lists the resource, more is free than exists, devices are near two NUMA nodes, zero devices are
    requested, which still binds the container, or an option of the kubelet spreads CPUs or prefers other sets for them.
    """
    nodes = policy_group.nodes
    found = np.zeros(len(nodes), dtype=np.bool_)
    for number, one in zip(share.amounts, rows, strict=True):
        listed = snapshot.node_arrays.listed[number]
        if not every(listed):
            found |= ~listed.take(nodes)
        more = one.free > one.capacity
        if np.count_nonzero(more):
            found |= np.logical_or.reduce(more, axis=0)
        if number in share.cpu:
            node_arrays = snapshot.node_arrays
            found |= node_arrays.spread_cpus.take(nodes) | (node_arrays.numa_per_socket.take(nodes) > 0)
        if one.amount == 0:
            found[:] = True
        elif number in share.devices:
            found |= devices_shared(snapshot, number, nodes)
    return found


def _row(snapshot: Snapshot, row: int, amount: int, nodes: Nodes) -> Row:
    node_arrays = snapshot.node_arrays
    memory = is_memory(node_arrays.resources.names[row])
    # For the narrowest width, reserved CPUs count; memory reserved for the system does not.
    capacity = (node_arrays.zone_allocatable if memory else node_arrays.capacity)[row]
    found = amounts_at(capacity, nodes)
    listed = node_arrays.listed[row].take(nodes)
    if not every(listed):
        found = found * listed
    return Row(amount, found, amounts_at(snapshot.free(row), nodes), memory)
