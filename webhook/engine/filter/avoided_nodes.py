"""The nodes that a pod avoids because their kubelets rejected another pod of its controller or gang."""

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.formats.kubernetes.pod import Pod


def avoided_nodes(node_arrays: NodeArrays, pod: Pod) -> Bools | None:
    """Bool [node]; None = none of the snapshot."""
    found = [index for one in pod.avoided if (index := node_arrays.index.get(one.node)) is not None]
    if not found:
        return None
    where = np.zeros(node_arrays.n, dtype=np.bool_)
    where[found] = True
    return where
