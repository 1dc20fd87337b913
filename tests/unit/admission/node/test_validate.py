"""The label with a node's NUMA policy, and the options of its kubelet that an operator states."""

from typing import Any

import pytest

from tests.builders.nodes import node
from tests.builders.reviews import denied, review, warnings
from webhook.admission.node import NodeValidator
from webhook.admission.response import Allowed, Denied
from webhook.model.names import KOORDINATOR_NODE_POLICY_LABEL, KUBELET_OPTIONS


def labelled(value: str | None) -> dict[str, Any]:
    return node(name="n1", labels={} if value is None else {KOORDINATOR_NODE_POLICY_LABEL: value})


def judged(value: str | None, before: str | None = None, **how: Any) -> Allowed | Denied:
    """The update of a node's label."""
    return NodeValidator().handle(review(labelled(value), labelled(before), **how))


@pytest.mark.parametrize("value", [None, "", "SingleNUMANode", "Restricted", "BestEffort", "None"])
def test_known_policies_pass(value: str | None) -> None:
    assert judged(value) == Allowed()
    assert judged(value, operation="CREATE") == Allowed()


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_anything_else_is_refused_with_the_values_there_are(operation: str) -> None:
    verdict = denied(judged("single-numa-node", operation=operation))
    assert verdict.message == (
        "metadata.labels[node.koordinator.sh/numa-topology-policy]: 'single-numa-node' is not a NUMA policy; the "
        "values are SingleNUMANode, Restricted, BestEffort, None. Did you mean SingleNUMANode?"
    )


def test_a_value_that_is_there_already_does_not_stop_a_nodes_updates() -> None:
    assert judged("sometimes", before="sometimes") == Allowed()


def test_a_write_to_the_status_can_change_labels_and_is_judged_alike() -> None:
    assert isinstance(judged("sometimes", subResource="status"), Denied)


@pytest.mark.parametrize(("text", "count"), [("max-allowable-numa-nodes=34", 0), ("max-numa-nodes=34,x=y", 2)])
def test_options_of_its_kubelet_that_cannot_be_read_are_warned_of(text: str, count: int) -> None:
    annotated = {**labelled(None), "metadata": {"name": "n1", "annotations": {KUBELET_OPTIONS: text}}}
    assert len(warnings(NodeValidator().handle(review(annotated, labelled(None))))) == count
