"""Which ProvisioningRequests are ours, and what their conditions say."""

from typing import Any

import pytest

from webhook.formats.autoscaling import (
    GANG_DIGEST,
    POD_SETS_DIGEST,
    Answer,
    consumed_by,
    own_request,
    sealed_parts,
)
from webhook.formats.koordinator.numa_allocation import SEAL, AllocationKey

KEY = AllocationKey(b"k" * 32)


def request(conditions: Any = None, **metadata: Any) -> dict[str, Any]:
    """A request of ours. conditions: in its status."""
    spec = {"provisioningClassName": "c", "podSets": [{"podTemplateRef": {"name": "t-0"}, "count": 2}]}
    seal = KEY.seal(*sealed_parts("team", "t", "gang", "pods", spec))
    own = {
        "namespace": "team",
        "name": "t",
        "uid": "u",
        "creationTimestamp": "2030-01-01T00:00:00Z",
        "labels": {GANG_DIGEST: "gang"},
        "annotations": {SEAL: seal, POD_SETS_DIGEST: "pods"},
    }
    status = {} if conditions is None else {"status": {"conditions": conditions}}
    return {"metadata": {**own, **metadata}, "spec": spec, **status}


def condition(type_: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def answer(*conditions: dict[str, str]) -> tuple[Answer, str]:
    found = own_request(request(list(conditions)), KEY)
    assert found is not None
    return found.answer, found.detail


def test_what_we_sealed_is_ours() -> None:
    found = own_request(request(), KEY)
    assert found is not None
    assert (found.key, found.uid, found.gang, found.pod_sets) == ("team/t", "u", "gang", "pods")
    assert (found.templates, found.answer) == (("t-0",), Answer.NONE)


@pytest.mark.parametrize(
    "forged",
    [
        request(name="other"),
        request(namespace="other"),
        request(labels={GANG_DIGEST: "other"}),
        request(labels=None),
        request(annotations={}),
        request(annotations={SEAL: 1}),
        request(annotations={SEAL: "\ud800"}),
        request(annotations={**request()["metadata"]["annotations"], POD_SETS_DIGEST: "other"}),
        {**request(), "spec": {**request()["spec"], "podSets": []}},
        {**request(), "spec": {**request()["spec"], "provisioningClassName": "other"}},
        {**request(), "spec": None},
    ],
)
def test_what_differs_from_what_we_sealed_is_not_ours(forged: dict[str, Any]) -> None:
    assert own_request(forged, KEY) is None


def test_what_another_key_sealed_is_not_ours() -> None:
    assert own_request(request(), AllocationKey(b"o" * 32)) is None


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], Answer.NONE),
        ([("Accepted", "True")], Answer.ACCEPTED),
        ([("Accepted", "False")], Answer.NONE),
        ([("Accepted", "True"), ("Provisioned", "False")], Answer.NO_CAPACITY),
        ([("Accepted", "True"), ("Provisioned", "True")], Answer.PROVISIONED),
        ([("Provisioned", "True"), ("BookingExpired", "True")], Answer.EXPIRED),
        ([("Provisioned", "True"), ("BookingExpired", "False")], Answer.PROVISIONED),
        ([("Provisioned", "True"), ("CapacityRevoked", "True")], Answer.REVOKED),
        ([("Failed", "True"), ("Provisioned", "True")], Answer.FAILED),
        ([("Odd", "True")], Answer.NONE),
    ],
)
def test_the_answer_is_in_the_conditions(conditions: list[tuple[str, str]], expected: Answer) -> None:
    assert answer(*(condition(*one) for one in conditions))[0] is expected


def test_what_a_condition_says_is_one_short_clause() -> None:
    assert answer(condition("Failed", "True", "Quota", "no CPUs")) == (Answer.FAILED, "Quota: no CPUs")
    assert answer(condition("Failed", "True")) == (Answer.FAILED, "")
    _, detail = answer(condition("Failed", "True", "R", "a; b\nc\x1b[31m" + "x" * 10_000))
    assert detail.startswith("R: a, b c\\x1b[31mxx")
    assert len(detail) <= 201


def test_a_pod_names_the_request_that_it_consumes() -> None:
    assert consumed_by({}) == ""
    assert consumed_by({"autoscaling.x-k8s.io/consume-provisioning-request": "a"}) == "a"
    assert consumed_by({"cluster-autoscaler.kubernetes.io/consume-provisioning-request": "b"}) == "b"
