"""The cluster as if no pod ran: what could ever fit."""

from dataclasses import replace

import numpy as np

from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.model.resources import CPU


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
