"""What nodes have and what is free on them, per resource, as decisions see it."""

from dataclasses import dataclass

import numpy as np

from webhook.engine.arrays import UNLISTED, Amounts, Bools
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.dra import CLASS_RESOURCE_PREFIX
from webhook.model.resources import CPU, MEMORY, PODS, is_device

# A table has place for these; --resource names others.
_MOST_SHOWN = 4


@dataclass(frozen=True, slots=True, eq=False)
class NodeAmounts:
    """One resource on every node. Amounts: int64 [node], in engine units.

    free: what pods can still request, 0 on nodes that take no pods. total: allocatable. used: requested, up to that.
    largest: the largest amount that one NUMA node has free, never more than `free`; -1 = no NUMA node lists it.
    """

    resource: str
    free: Amounts
    total: Amounts
    largest: Amounts
    used: Amounts


def usable_nodes(snapshot: Snapshot) -> Bools:
    """Bool [node]: the nodes that take pods, that is, ready and not cordoned."""
    usable: Bools = snapshot.node_arrays.ready & ~snapshot.node_arrays.unschedulable
    return usable


def amounts_of(snapshot: Snapshot, resource: str) -> NodeAmounts:
    """The amounts of a resource that some node offers."""
    snapshot = snapshot.covering((resource,))
    row = snapshot.node_arrays.resources.find(resource)
    total = np.maximum(snapshot.node_arrays.allocatable[row], 0)
    left = snapshot.node_free(row)
    free = np.where(usable_nodes(snapshot), np.maximum(left, 0), 0)
    zones = snapshot.free(row)
    largest = zones.max(axis=0) if len(zones) else np.full(len(free), UNLISTED, dtype=np.int64)
    return NodeAmounts(resource, free, total, np.minimum(largest, free), np.clip(total - left, 0, total))


def offered_resources(snapshot: Snapshot) -> tuple[str, ...]:
    """The resources that some node offers to pods, sorted; without `pods`, which every node has."""
    arrays = snapshot.node_arrays
    names = {name for row, name in enumerate(arrays.resources.names) if (arrays.allocatable[row] > 0).any()}
    rare = {name for name, nodes in arrays.rare.items() if any(one.allocatable > 0 for one in nodes.values())}
    return tuple(sorted(name for name in names | rare if can_be_requested(name) and name != PODS))


def can_be_requested(name: str) -> bool:
    """Whether pods can request it. How often a claim could be allocated counts as one, "claim NAMESPACE/NAME"."""
    return " " not in name


def usual_resources(snapshot: Snapshot) -> tuple[str, ...]:
    """The resources to show if none are chosen: cpu, memory, and the devices that most nodes have.

    Those of a DeviceClass have a name of their own in any case, which is shown where no other names devices.
    """
    offered = offered_resources(snapshot)
    classes = [name for name in offered if name.startswith(CLASS_RESOURCE_PREFIX)]
    devices = sorted(
        [name for name in offered if is_device(name)] or classes,
        key=lambda name: (-int(np.count_nonzero(amounts_of(snapshot, name).total)), name),
    )
    return tuple(name for name in (CPU, MEMORY, *devices) if name in offered)[:_MOST_SHOWN]
