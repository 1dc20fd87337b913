"""The cluster as if no pod ran: what could ever fit.

While a device plugin or a kubelet restarts, a node offers none of its devices for some minutes, and one that is
unhealthy may recover. So there are two answers: the empty cluster by what nodes offer now (`empty_cluster`), and with
the devices that they know and do not offer now (`with_devices_back`).
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from webhook.engine.arrays import UNLISTED
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.model.resources import CPU, MAX_AMOUNT, is_device


def with_devices_back(empty: NodeArrays, names: Iterable[str]) -> NodeArrays | None:
    """The empty cluster with all devices of these resources, as far as it names them; None if none are away.

    The NRT follows the node: it lists less than the capacity, or 0, or still what was there before.
    1. If the NUMA nodes have capacity for all devices of their node, each has its capacity again.
    2. Otherwise it is not known near which NUMA nodes they will be. Then no NUMA node rules them out.

    Devices of ResourceSlices come and go with their drivers, and nothing says how many a node would have. So a node may
    have any number of them, unless its NUMA nodes list the resource: then a device plugin serves it there.
    """
    served = empty.served_by_slices
    wanted = (name for name in names if is_device(name) or name in served)
    rows = {name: row for name in wanted if (row := empty.resources.find(name)) >= 0}
    fields = ("available", "capacity", "zone_allocatable", "listed", "allocatable", "node_free")
    arrays = {field: getattr(empty, field).copy() for field in fields} if rows else {}
    found = False
    for name, row in rows.items():
        away = np.zeros(empty.n, dtype=np.int64)
        for node, devices in empty.devices_away.items():
            away[empty.index[node]] = devices.get(name, 0)
        capacity = empty.capacity[row]
        near = np.maximum(capacity, 0).sum(axis=0)
        offered = np.maximum(empty.zone_allocatable[row], 0).sum(axis=0)
        named = np.maximum(empty.allocatable[row], 0) + away
        whole = np.where(named > 0, named, near)
        nowhere = (capacity != UNLISTED).any(axis=0) & (near == 0)
        back = (whole > 0) & ((away > 0) | (named == 0) | (offered < near) | nowhere)
        known = near == whole
        zones = np.where(known, capacity, UNLISTED)
        for field in ("available", "capacity", "zone_allocatable"):
            arrays[field][row] = np.where(back, zones, arrays[field][row])
        arrays["listed"][row] = np.where(back, known, arrays["listed"][row])
        for field in ("allocatable", "node_free"):
            arrays[field][row] = np.where(back, whole, arrays[field][row])
        found |= bool(back.any())
        if name in served:
            unlimited = ~(capacity != UNLISTED).any(axis=0)
            for field in ("allocatable", "node_free"):
                arrays[field][row] = np.where(unlimited, MAX_AMOUNT, arrays[field][row])
            found |= bool(unlimited.any())
    return replace(empty, **arrays) if found else None


def empty_cluster(node_arrays: NodeArrays) -> NodeArrays:
    """Everything allocatable is free, and every node is ready and not cordoned."""
    threads = node_arrays.threads.astype(np.int64)
    cpu = np.maximum(node_arrays.zone_allocatable[node_arrays.resources.find(CPU)], 0)
    return replace(
        node_arrays,
        available=node_arrays.zone_allocatable,
        requested=np.zeros_like(node_arrays.requested),
        node_free=np.maximum(node_arrays.allocatable, 0),
        single_residents=np.zeros_like(node_arrays.single_residents),
        multi_residents=np.zeros_like(node_arrays.multi_residents),
        ready=np.ones_like(node_arrays.ready),
        unschedulable=np.zeros_like(node_arrays.unschedulable),
        split_cpu=np.zeros_like(node_arrays.split_cpu),
        split_cpu_of_node=np.zeros_like(node_arrays.split_cpu_of_node),
        # A core counts whose other CPUs are reserved.
        core_cpu=np.where(threads > 0, -(-cpu // (1000 * np.maximum(threads, 1))) * 1000, 0),
    )
