"""Node selectors and required node affinity, decided for all nodes at once.

1. A requirement on a label is decided once for each distinct value of the label and looked up for each node.
2. A term holds where all its requirements hold; one without any holds nowhere, like one that is malformed.
3. An affinity holds where any of its terms holds.

Source: kubernetes component-helpers scheduling/corev1/nodeaffinity, apimachinery pkg/labels (selector).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webhook.engine.arrays import Bools, Codes
from webhook.engine.snapshot.label_columns import LabelColumns, Vocabulary, integer
from webhook.engine.snapshot.node_arrays import NodeArrays

_NAME_FIELD = "metadata.name"


def selected(node_arrays: NodeArrays, selector: Mapping[str, str]) -> Bools | None:
    """Nodes with every label of the nodeSelector, bool [node]; None = all of them."""
    holds: Bools | None = None
    for key, value in selector.items():
        holds = _and(holds, labelled(node_arrays.labels, key, "In", (value,)))
    return holds


def matches_any(node_arrays: NodeArrays, terms: Sequence[Mapping[str, Any]] | None) -> Bools | None:
    """Nodes where some nodeSelectorTerm holds, bool [node]; None = all of them (no required affinity)."""
    if terms is None:
        return None
    matched = [matches(node_arrays, term) for term in terms]
    return np.logical_or.reduce(matched) if matched else np.zeros(node_arrays.n, dtype=np.bool_)


def matches(node_arrays: NodeArrays, term: Mapping[str, Any]) -> Bools:
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


def _named(node_arrays: NodeArrays, raw: Mapping[str, Any]) -> Bools:
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
