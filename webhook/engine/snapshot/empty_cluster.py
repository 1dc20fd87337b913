"""The cluster as if no pod ran: what could ever fit."""

from dataclasses import replace

import numpy as np

from webhook.engine.snapshot.node_arrays import Snapshot


def emptied(snapshot: Snapshot) -> Snapshot:
    """All that is allocatable is free, every node is ready and not cordoned."""
    return replace(
        snapshot,
        available=snapshot.zone_allocatable,
        requested=np.zeros_like(snapshot.requested),
        node_free=np.maximum(snapshot.allocatable, 0),
        single_residents=np.zeros_like(snapshot.single_residents),
        multi_residents=np.zeros_like(snapshot.multi_residents),
        ready=np.ones_like(snapshot.ready),
        unschedulable=np.zeros_like(snapshot.unschedulable),
    )
