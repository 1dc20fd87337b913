"""A pod reaches its kubelet: what the kubelet gives it of each NUMA node, or a rejection.

The engine's own model of kubelets (webhook.engine.kubelet) answers, from the sums of what it gave before. A real
kubelet also knows which CPUs and devices these are, and which NUMA nodes its memory manager keeps together.
"""

from typing import Final

import numpy as np

from webhook.engine.decide import on_numa_nodes
from webhook.engine.numa_fit import Allocation
from webhook.engine.request import PodRequest, named_resources
from webhook.model.intent import NO_INTENT, NUMAIntent
from webhook.model.options import Options
from webhook.model.pod import Pod
from webhook.simulation.room import Room

_AS_KUBELETS_DO: Final = Options()
_THE_NODE: Final = np.ones(1, dtype=np.bool_)


def admitted(room: Room, node: str, pod: Pod, intent: NUMAIntent | None) -> Allocation | None:
    """What the pod gets on the node; None if its kubelet rejects it.

    intent: what the webhook knows of the pod; None: kubelets read no annotations, so the node's own policy applies.
    """
    snapshot = room.node(node).covering(named_resources(pod))
    if intent is None and snapshot.node_arrays.total[0]:
        return ()  # koordlet's kubelets align nothing, and its agent has no hint to follow
    request = PodRequest.of(pod, intent or NO_INTENT, snapshot.node_arrays.resources)
    fit, _ = on_numa_nodes(snapshot, request, _AS_KUBELETS_DO, _THE_NODE)
    return fit.allocation(0) if fit.fits[0] else None
