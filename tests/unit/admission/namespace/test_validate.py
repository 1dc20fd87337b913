from typing import Any

import pytest

from webhook.admission.namespace.validate import NamespaceValidator
from webhook.admission.response import Allowed
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.model.names import MANAGE_LABEL, NUMA_TOPOLOGY_SPEC


def namespace(label: str | None = None, annotation: str | None = None) -> dict[str, Any]:
    labels = {} if label is None else {MANAGE_LABEL: label}
    annotations = {} if annotation is None else {NUMA_TOPOLOGY_SPEC: annotation}
    return {"kind": "Namespace", "metadata": {"name": "team-a", "labels": labels, "annotations": annotations}}


def warnings(after: dict[str, Any], before: dict[str, Any] | None = None, kind: str = "Namespace") -> tuple[str, ...]:
    request = {
        "uid": "u1",
        "kind": {"group": "", "version": "v1", "kind": kind},
        "operation": "CREATE" if before is None else "UPDATE",
        "object": after,
        "oldObject": before,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = NamespaceValidator().handle(AdmissionRequest.from_object(review))
    assert isinstance(answer, Allowed)  # whatever stands there
    return answer.warnings


@pytest.mark.parametrize("label", [None, "annotated", "aligned", "all"])
@pytest.mark.parametrize("annotation", [None, "{}", '{"numaTopologyPolicy": "Restricted"}'])
def test_what_its_pods_can_use_is_not_worth_a_word(label: str | None, annotation: str | None) -> None:
    assert warnings(namespace(label, annotation)) == ()


def test_what_they_cannot_use_is_told_when_it_is_written() -> None:
    (told,) = warnings(namespace("everything"))
    assert told.startswith(f"namespace team-a: metadata.labels[{MANAGE_LABEL}]: 'everything' is unknown")
    (told,) = warnings(namespace(None, "{"), namespace())
    assert told.startswith(f"namespace team-a: metadata.annotations[{NUMA_TOPOLOGY_SPEC}]: ")
    assert len(warnings(namespace("everything", "{"))) == 2


def test_what_stood_there_before_is_not_told_again() -> None:
    assert warnings(namespace("everything", "{"), namespace("everything", "{")) == ()
    assert len(warnings(namespace("everything", "}"), namespace("everything", "{"))) == 2


def test_a_name_that_is_still_to_be_made_does_no_harm() -> None:
    raw = namespace("everything")
    raw["metadata"] = {"generateName": "team-", "labels": raw["metadata"]["labels"]}
    assert len(warnings(raw)) == 1
    assert warnings(namespace("everything"), kind="Pod") == ()
