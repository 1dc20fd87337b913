"""Odd fields of pods in files: the pod is rejected with the field's name, no later comparison fails."""

from typing import Any

import pytest

from tests.builders.pods import bound
from webhook.model.bound_pod import BoundPod
from webhook.model.errors import UserError


@pytest.mark.parametrize("value", ["30", "x", [], {}, 3.5, True])
@pytest.mark.parametrize("name", ["terminationGracePeriodSeconds", "priority"])
def test_a_number_of_another_type_is_rejected(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"spec.{name}"):
        BoundPod.from_object(bound(node="n0", **{name: value}))


def test_numbers_may_be_missing() -> None:
    raw = bound(node="n0")
    for name in ("terminationGracePeriodSeconds", "priority"):
        raw["spec"].pop(name, None)
    pod = BoundPod.from_object(raw)
    assert (pod.grace, pod.priority) == (30, 0)
