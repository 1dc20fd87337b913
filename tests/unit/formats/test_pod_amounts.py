"""What equal containers request is computed once."""

from types import MappingProxyType
from typing import Any

import pytest

from tests.builders.pods import pod
from webhook.formats.kubernetes.pod_resources import PodAmounts
from webhook.model.errors import UserError


def amounts_of(raw: dict[str, Any]) -> PodAmounts:
    return PodAmounts.of(raw["spec"], raw.get("status") or {})


def test_pods_that_differ_in_other_fields_share_their_amounts() -> None:
    one, other = pod(name="a"), pod(name="b")
    other["spec"]["nodeName"] = "n"
    other["spec"]["containers"][0]["image"] = "other"
    other["status"] = {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True}]}
    assert amounts_of(one) is amounts_of(other)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("initContainers", [{"name": "init", "resources": {"requests": {"cpu": "9"}}}]),
        ("overhead", {"cpu": "1"}),
        ("resources", {"requests": {"cpu": "9"}}),
    ],
)
def test_other_amounts_are_not_shared(field: str, value: Any) -> None:
    one, other = pod(), pod()
    other["spec"][field] = value
    assert amounts_of(one).requests["cpu"] < amounts_of(other).requests["cpu"]


def test_a_resize_counts_until_it_is_infeasible() -> None:
    plain, resized = pod(cpu="2", memory="1Gi"), pod(cpu="2", memory="1Gi")
    name = resized["spec"]["containers"][0]["name"]
    statuses = [{"name": name, "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}]
    resized["status"] = {"containerStatuses": statuses}
    assert amounts_of(resized).requests["cpu"] == amounts_of(plain).requests["cpu"] == 2000
    resized["status"]["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible"}]
    assert amounts_of(resized).requests["cpu"] == 1000


def test_a_pod_with_texts_too_long_to_remember_is_read_all_the_same() -> None:
    raw = pod()
    raw["spec"]["containers"][0]["name"] = "x" * 4096
    assert amounts_of(raw) == amounts_of(raw)
    assert amounts_of(raw) is not amounts_of(raw)


def test_a_pod_that_is_not_from_json_is_read_all_the_same() -> None:
    raw = pod()
    container = raw["spec"]["containers"][0]
    plain = amounts_of(raw)
    container["resources"] = {"requests": dict(container["resources"]["requests"]), "more": MappingProxyType({})}
    assert amounts_of(raw).requests == plain.requests


@pytest.mark.parametrize("amount", ["many", "-1", [], True])
def test_unreadable_amounts_are_an_error_each_time(amount: Any) -> None:
    raw = pod()
    raw["spec"]["containers"][0]["resources"] = {"requests": {"cpu": amount}}
    for _ in range(2):
        with pytest.raises(UserError):
            amounts_of(raw)
