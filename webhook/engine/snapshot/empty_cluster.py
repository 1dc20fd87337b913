"""The cluster as if no pod ran: what could ever fit."""

from dataclasses import replace

import numpy as np

from webhook.engine.snapshot.node_arrays import NodeArrays


def empty_cluster(node_arrays: NodeArrays) -> NodeArrays:
    """Everything allocatable is free, and every node is ready and not cordoned."""
    return replace(
        node_arrays,
        available=node_arrays.zone_allocatable,
        requested=np.zeros_like(node_arrays.requested),
        node_free=np.maximum(node_arrays.allocatable, 0),
        single_residents=np.zeros_like(node_arrays.single_residents),
        multi_residents=np.zeros_like(node_arrays.multi_residents),
        ready=np.ones_like(node_arrays.ready),
        unschedulable=np.zeros_like(node_arrays.unschedulable),
    )
