"""Odd fields of pods in files: the pod is rejected with the field's name, no later comparison fails."""

from typing import Any

import pytest

from tests.builders.pods import bound
from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.errors import UserError


def read(raw: dict[str, Any]) -> BoundPod:
    return BoundPod.of(raw, ResidentPod.from_object(raw))


@pytest.mark.parametrize("labels", [{"a": []}, {"a": 1}])
def test_labels_of_another_type_are_kept_as_they_are(labels: dict[str, Any]) -> None:
    raw = bound(node="n0")
    raw["metadata"]["labels"] = labels
    assert read(raw).labels == labels


@pytest.mark.parametrize("value", ["30", "x", [], {}, 3.5, True])
@pytest.mark.parametrize("name", ["terminationGracePeriodSeconds", "priority"])
def test_a_number_of_another_type_is_rejected(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"spec.{name}"):
        read(bound(node="n0", **{name: value}))


def test_numbers_may_be_missing() -> None:
    raw = bound(node="n0")
    for name in ("terminationGracePeriodSeconds", "priority"):
        raw["spec"].pop(name, None)
    pod = read(raw)
    assert (pod.grace, pod.priority) == (30, 0)
