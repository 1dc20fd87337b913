"""What a node must offer apart from its NUMA nodes: the scheduler's own filters, for all nodes at once.

1. Node selectors and required node affinity. A requirement on a label is decided once for each distinct value of the
   label and looked up for each node. A term holds where all its requirements hold; one without any holds nowhere, like
   one that is malformed. An affinity holds where any of its terms holds.
2. Taints, cordons and readiness, by the pod's tolerations.
3. The sums of the node as a whole, and its number of pods.

Not simulated: volumes, ports, pod (anti-)affinity, topology spread. The scheduler checks those on the remaining
nodes. Within a gang, webhook.engine.gang.gang_assignment counts them.

Source: kubernetes pkg/scheduler/framework/plugins (nodeaffinity, tainttoleration, nodeunschedulable, noderesources);
component-helpers scheduling/corev1/nodeaffinity; apimachinery pkg/labels (selector); api core/v1 (toleration.go).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from webhook.engine.arrays import Bools, Bytes, Codes, every
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.label_columns import LabelColumns, Vocabulary, integer
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.node import Taint
from webhook.formats.kubernetes.pod import Pod
from webhook.model.raw import Raw
from webhook.model.resources import PODS

CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""The taint that a pod must tolerate to run on a cordoned node."""
NOT_READY: Final = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
"""The taint that a pod must tolerate to run on a node that is not ready."""


class Tolerations:
    """A pod's tolerations, indexed by what they cover, so that the time for a taint does not depend on their number."""

    __slots__ = ("_reported",)

    def __init__(self, raws: Iterable[Raw]) -> None:
        # (key, effect, value); an empty effect covers every effect, an empty key every key, Exists every value.
        self._reported: set[tuple[str | None, str | None, str | None]] = set()
        for raw in raws:
            operator = raw.get("operator") or "Equal"
            if operator in {"Exists", "Equal"}:
                value = None if operator == "Exists" else raw.get("value") or ""
                self._reported.add((raw.get("key") or None, raw.get("effect") or None, value))

    def cover(self, taint: Taint) -> bool:
        """Whether any of them covers the taint."""
        return bool(self._reported) and any(
            (key, effect, value) in self._reported
            for key in (taint.key, None)
            for effect in (taint.effect, None)
            for value in (taint.value, None)
        )

    def first_uncovered(self, taints: Iterable[Taint]) -> Taint | None:
        """The first taint that no toleration covers."""
        return next((taint for taint in taints if not self.cover(taint)), None)


def tolerates(tolerations: Sequence[Raw], taint: Taint) -> bool:
    """Whether any of the tolerations covers the taint."""
    return Tolerations(tolerations).cover(taint)


def untolerated(tolerations: Sequence[Raw], taints: Sequence[Taint]) -> Taint | None:
    """The first taint that no toleration covers."""
    return Tolerations(tolerations).first_uncovered(taints)


_NAME_FIELD = "metadata.name"


def selected(node_arrays: NodeArrays, selector: Mapping[str, str]) -> Bools | None:
    """Nodes with every label of the nodeSelector, bool [node]; None = all of them."""
    holds: Bools | None = None
    for key, value in selector.items():
        holds = _and(holds, labelled(node_arrays.labels, key, "In", (value,)))
    return holds


def matches_any(node_arrays: NodeArrays, terms: Sequence[Raw] | None) -> Bools | None:
    """Nodes where some nodeSelectorTerm holds, bool [node]; None = all of them (no required affinity)."""
    if terms is None:
        return None
    matched = [matches(node_arrays, term) for term in terms]
    return np.logical_or.reduce(matched) if matched else np.zeros(node_arrays.n, dtype=np.bool_)


def matches(node_arrays: NodeArrays, term: Raw) -> Bools:
    """Nodes where a nodeSelectorTerm holds, bool [node]."""
    holds: Bools | None = None
    for raw in term.get("matchExpressions") or ():
        values = tuple(raw.get("values") or ())
        holds = _and(holds, labelled(node_arrays.labels, raw.get("key", ""), raw.get("operator", ""), values))
    for raw in term.get("matchFields") or ():
        holds = _and(holds, _named(node_arrays, raw))
    return np.zeros(node_arrays.n, dtype=np.bool_) if holds is None else holds


def _and(one: Bools | None, other: Bools) -> Bools:
    return other if one is None else one & other


def labelled(labels: LabelColumns, key: str, operator: str, values: tuple[str, ...]) -> Bools:
    """Nodes where the requirement on one label holds, bool [node]. A malformed one holds nowhere."""
    codes, vocabulary = labels.column(key)
    if operator in {"In", "NotIn"} and values:
        holds = _one_of(codes, vocabulary, values)
        return holds if operator == "In" else ~holds
    if operator in {"Exists", "DoesNotExist"} and not values:
        return (codes >= 0) if operator == "Exists" else codes < 0
    if operator in {"Gt", "Lt"} and len(values) == 1:
        bound = integer(values[0])
        if bound is not None:
            return _compared(codes, vocabulary, operator, bound)
    return np.zeros(len(codes), dtype=np.bool_)


def _one_of(codes: Codes, vocabulary: Vocabulary, values: tuple[str, ...]) -> Bools:
    known = [code for value in values if (code := vocabulary.codes.get(value)) is not None]
    if len(known) == 1:
        only: Bools = codes == known[0]
        return only
    table = np.zeros(len(vocabulary.values) + 1, dtype=np.bool_)
    table[known] = True
    return table.take(codes)


def _compared(codes: Codes, vocabulary: Vocabulary, operator: str, bound: int) -> Bools:
    numbers, is_number = vocabulary.numbers()
    table = is_number & (numbers > bound if operator == "Gt" else numbers < bound)
    # The last entry is for nodes without the label: their code is -1.
    return np.append(table, False).take(codes)


def _named(node_arrays: NodeArrays, raw: Raw) -> Bools:
    """Nodes where a requirement in matchFields holds, bool [node]: the node's name, In or NotIn exactly one value."""
    values: Sequence[str] = raw.get("values") or ()
    operator = raw.get("operator")
    if raw.get("key") != _NAME_FIELD or operator not in {"In", "NotIn"} or len(values) != 1:
        return np.zeros(node_arrays.n, dtype=np.bool_)
    holds = np.full(node_arrays.n, operator == "NotIn", dtype=np.bool_)
    n = node_arrays.index.get(values[0])
    if n is not None:
        holds[n] = operator == "In"
    return holds


def avoided_nodes(node_arrays: NodeArrays, pod: Pod) -> Bools | None:
    """The nodes that the pod avoids because their kubelets rejected another pod of its controller or gang.

    Bool [node]; None = none of the snapshot.
    """
    found = [index for one in pod.avoided if (index := node_arrays.index.get(one.node)) is not None]
    if not found:
        return None
    where = np.zeros(node_arrays.n, dtype=np.bool_)
    where[found] = True
    return where


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
