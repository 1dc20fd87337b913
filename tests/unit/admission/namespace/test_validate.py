"""Labels and annotations of namespaces: what no pod can use is warned about."""

from typing import Any

import pytest

from tests.builders.reviews import review, warnings
from webhook.admission.namespace import NamespaceValidator
from webhook.model.names import MANAGE_LABEL, NUMA_TOPOLOGY_SPEC


def namespace(label: str | None = None, annotation: str | None = None) -> dict[str, Any]:
    labels = {} if label is None else {MANAGE_LABEL: label}
    annotations = {} if annotation is None else {NUMA_TOPOLOGY_SPEC: annotation}
    return {"kind": "Namespace", "metadata": {"name": "team-a", "labels": labels, "annotations": annotations}}


def told(raw: dict[str, Any], before: dict[str, Any] | None = None, **how: Any) -> tuple[str, ...]:
    """The warnings: whatever stands there, it is admitted."""
    return warnings(NamespaceValidator().handle(review(raw, before, **how)))


@pytest.mark.parametrize("label", [None, "annotated", "aligned", "all"])
@pytest.mark.parametrize("annotation", [None, "{}", '{"numaTopologyPolicy": "Restricted"}'])
def test_what_its_pods_can_use_is_not_worth_a_word(label: str | None, annotation: str | None) -> None:
    assert told(namespace(label, annotation)) == ()


def test_what_they_cannot_use_is_told_when_it_is_written() -> None:
    (warning,) = told(namespace("everything"))
    assert warning.startswith(f"namespace team-a: metadata.labels[{MANAGE_LABEL}]: 'everything' is unknown")
    (warning,) = told(namespace(None, "{"), namespace())
    assert warning.startswith(f"namespace team-a: metadata.annotations[{NUMA_TOPOLOGY_SPEC}]: ")
    assert len(told(namespace("everything", "{"))) == 2


def test_what_stood_there_before_is_not_told_again() -> None:
    assert told(namespace("everything", "{"), namespace("everything", "{")) == ()
    assert len(told(namespace("everything", "}"), namespace("everything", "{"))) == 2


def test_a_name_that_is_still_to_be_made_does_no_harm() -> None:
    raw = namespace("everything")
    raw["metadata"] = {"generateName": "team-", "labels": raw["metadata"]["labels"]}
    assert len(told(raw)) == 1
    assert told(namespace("everything"), kind={"kind": "Pod"}) == ()
