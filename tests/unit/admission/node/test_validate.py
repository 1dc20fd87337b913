from typing import Any

import pytest

from webhook.admission.node.validate import NodeValidator
from webhook.admission.response import Allowed, Denied
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.model.names import KOORDINATOR_NODE_POLICY_LABEL, KUBELET_OPTIONS


def labelled(value: str | None) -> dict[str, Any]:
    labels = {} if value is None else {KOORDINATOR_NODE_POLICY_LABEL: value}
    return {"kind": "Node", "metadata": {"name": "n1", "labels": labels}}


def judged(
    value: str | None, before: str | None = None, operation: str = "UPDATE", sub_resource: str = ""
) -> Allowed | Denied:
    request = {
        "uid": "u1",
        "kind": {"group": "", "version": "v1", "kind": "Node"},
        "operation": operation,
        "subResource": sub_resource,
        "object": labelled(value),
        "oldObject": None if operation == "CREATE" else labelled(before),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return NodeValidator().handle(AdmissionRequest.from_object(review))


@pytest.mark.parametrize("value", [None, "", "SingleNUMANode", "Restricted", "BestEffort", "None"])
def test_known_policies_pass(value: str | None) -> None:
    assert judged(value) == Allowed()
    assert judged(value, operation="CREATE") == Allowed()


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_anything_else_is_refused_with_the_values_there_are(operation: str) -> None:
    verdict = judged("single-numa-node", operation=operation)
    assert isinstance(verdict, Denied)
    assert verdict.message == (
        "metadata.labels[node.koordinator.sh/numa-topology-policy]: 'single-numa-node' is not a NUMA policy; the "
        "values are SingleNUMANode, Restricted, BestEffort, None. Did you mean SingleNUMANode?"
    )


def test_a_value_that_is_there_already_does_not_stop_a_nodes_updates() -> None:
    assert judged("sometimes", before="sometimes") == Allowed()


def test_a_write_to_the_status_can_change_labels_and_is_judged_alike() -> None:
    assert isinstance(judged("sometimes", sub_resource="status"), Denied)


@pytest.mark.parametrize(("text", "warnings"), [("max-allowable-numa-nodes=34", 0), ("max-numa-nodes=34,x=y", 2)])
def test_options_of_its_kubelet_that_cannot_be_read_are_warned_of(text: str, warnings: int) -> None:
    annotated = {"kind": "Node", "metadata": {"name": "n1", "annotations": {KUBELET_OPTIONS: text}}}
    request: dict[str, Any] = {"uid": "u1", "kind": {"group": "", "version": "v1", "kind": "Node"}}
    request["operation"] = "UPDATE"
    request |= {"object": annotated, "oldObject": labelled(None)}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    verdict = NodeValidator().handle(AdmissionRequest.from_object(review))
    assert isinstance(verdict, Allowed)
    assert len(verdict.warnings) == warnings
