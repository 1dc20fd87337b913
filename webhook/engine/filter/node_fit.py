"""What a node must offer apart from its NUMA nodes: the scheduler's own filters, for all nodes at once.

Not simulated: volumes, ports, pod (anti-)affinity, topology spread. The scheduler checks those on the remaining
nodes. Within a gang, webhook.engine.gang.exclusions counts them.
Source: kubernetes pkg/scheduler/framework/plugins (nodeaffinity, tainttoleration, nodeunschedulable, noderesources).
"""

import numpy as np

from webhook.engine.arrays import Bools, Bytes, every
from webhook.engine.filter.node_affinity import matches_any, selected
from webhook.engine.filter.taint_toleration import CORDON, NOT_READY, Tolerations, tolerates
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import Pod
from webhook.model.resources import PODS


def node_fit(snapshot: Snapshot, pod: Pod, request: PodRequest) -> Bytes:
    """uint8 [node]: the first Reason why the node as a whole cannot take the pod, FITS if it can.

    The last check is written first, so that earlier ones overwrite it.
    """
    node_arrays = snapshot.node_arrays
    reasons = np.zeros(node_arrays.n, dtype=np.uint8)
    for amount, row in zip(request.node, request.rows, strict=True):
        if amount > 0 and row < 0:
            reasons.fill(Reason.INSUFFICIENT_RESOURCES)
        elif amount > 0:
            _overwrite(reasons, snapshot.node_free(row) < amount, Reason.INSUFFICIENT_RESOURCES)
    _overwrite(reasons, snapshot.node_free(node_arrays.resources.find(PODS)) < 1, Reason.TOO_MANY_PODS)
    _overwrite(reasons, _tainted(node_arrays, pod), Reason.UNTOLERATED_TAINT)
    _keep(reasons, matches_any(node_arrays, pod.required_terms), Reason.NODE_AFFINITY_MISMATCH)
    _keep(reasons, selected(node_arrays, pod.node_selector), Reason.NODE_SELECTOR_MISMATCH)
    if not tolerates(pod.tolerations, CORDON):
        _overwrite(reasons, node_arrays.unschedulable, Reason.UNSCHEDULABLE)
    if not tolerates(pod.tolerations, NOT_READY):
        _keep(reasons, node_arrays.ready, Reason.NOT_READY)
    return reasons


def eligible(node_arrays: NodeArrays, pod: Pod) -> Bools:
    """Where the pod's own selectors and tolerations allow it to run, bool [node]."""
    excluded = _tainted(node_arrays, pod)
    where = np.ones(node_arrays.n, dtype=np.bool_) if excluded is None else ~excluded
    for allowed in (matches_any(node_arrays, pod.required_terms), selected(node_arrays, pod.node_selector)):
        if allowed is not None:
            where &= allowed
    return where


def closed(node_arrays: NodeArrays, pod: Pod) -> Bools | None:
    """Nodes that take no such pod even if empty, bool [node]; None = there are none."""
    found = _tainted(node_arrays, pod)
    for allowed in (matches_any(node_arrays, pod.required_terms), selected(node_arrays, pod.node_selector)):
        found = _or(found, None if allowed is None else ~allowed)
    if np.count_nonzero(node_arrays.unschedulable) and not tolerates(pod.tolerations, CORDON):
        found = _or(found, node_arrays.unschedulable)
    if not every(node_arrays.ready) and not tolerates(pod.tolerations, NOT_READY):
        found = _or(found, ~node_arrays.ready)
    return found


def _or(one: Bools | None, other: Bools | None) -> Bools | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _overwrite(reasons: Bytes, excluded: Bools | None, reason: Reason) -> None:
    if excluded is not None and np.count_nonzero(excluded):
        np.putmask(reasons, excluded, np.uint8(reason))


def _keep(reasons: Bytes, allowed: Bools | None, reason: Reason) -> None:
    if allowed is not None and np.count_nonzero(allowed) < len(allowed):
        np.putmask(reasons, ~allowed, np.uint8(reason))


def _tainted(node_arrays: NodeArrays, pod: Pod) -> Bools | None:
    """Nodes with a taint that the pod does not tolerate, bool [node]; None if none has. Decided per set of taints."""
    tolerations = Tolerations(pod.tolerations)
    table = [tolerations.first_uncovered(taints) is not None for taints in node_arrays.taint_sets]
    return np.array(table).take(node_arrays.taint_set) if any(table) else None
