"""Which resource a node has too little of on every NUMA node, for the text of a refusal."""

import numpy as np

from webhook.engine.cpu_cores import in_cores
from webhook.engine.decide import Decision
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import format_amount


def shortage(decision: Decision) -> str | None:
    """The first resource that no NUMA node has enough of; None if only the combination is missing."""
    request = decision.request
    snapshot = in_cores(decision.snapshot, request)
    node_arrays = snapshot.node_arrays
    whole = node_arrays.scope[0] == Scope.POD or node_arrays.total[0] or node_arrays.policy[0] == NUMAPolicy.NONE
    needs = request.node if whole else tuple(map(max, zip(*request.containers, strict=True)))
    for name, row, need in zip(request.resources, request.rows, needs, strict=True):
        free = snapshot.free(row)[:, 0] if row >= 0 else None
        if free is None or need <= 0 or free.max() < 0:
            continue
        most = int(np.argmax(free))
        if free[most] < need:
            has = format_amount(name, int(free[most]))
            numa_id = int(node_arrays.zone_ids[most, 0])
            return f"needs {format_amount(name, need)} {name}, most free on one is {has} (NUMA {numa_id})"
    return None
