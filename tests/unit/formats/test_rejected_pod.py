"""A rejected pod, read from its object: whose next pods avoid its node, and when it was rejected."""

from typing import Any

import pytest

from tests.builders.pods import bound
from webhook.formats.kubernetes.rejected_pod import RejectedPod, RejectionReason, rejected_pod

REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
STATUS = {"phase": "Failed", "reason": "TopologyAffinityError"}


def read(status: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, **how: Any) -> RejectedPod:
    raw = bound(node="n0", status={**STATUS, **(status or {})}, metadata=metadata or {}, **how)
    return rejected_pod(raw, RejectionReason.TOPOLOGY_AFFINITY, managed=True)


def written(time: str, subresource: str = "status", field: str = "f:reason") -> dict[str, Any]:
    return {"manager": "kubelet", "subresource": subresource, "time": time, "fieldsV1": {"f:status": {field: {}}}}


def test_it_belongs_to_its_controller_and_to_its_gang() -> None:
    pod = read(metadata={"ownerReferences": [REPLICA_SET]}, group="g")
    assert pod.groups == ("default/name/g", "default/owner/rs")
    assert pod.controller is not None
    assert (pod.key, pod.node, pod.controller.name) == ("default/p", "n0", "web-1")


@pytest.mark.parametrize(
    "owner",
    [
        {**REPLICA_SET, "controller": False},
        {**REPLICA_SET, "uid": "u" * 65},
        {**REPLICA_SET, "name": "../../secrets"},
        {**REPLICA_SET, "kind": "x" * 64},
        {**REPLICA_SET, "uid": ""},
    ],
)
def test_an_owner_that_can_be_no_controller_is_none(owner: dict[str, Any]) -> None:
    pod = read(metadata={"ownerReferences": [owner]})
    assert (pod.controller, pod.groups) == (None, ())


def test_a_gang_of_an_endless_name_is_left_out() -> None:
    assert read(group="g" * 600).groups == ()


def test_it_was_rejected_when_the_reason_was_written_by_the_api_servers_clock() -> None:
    entries = [
        written("1970-01-01T00:01:00Z"),
        written("1970-01-01T00:09:00Z", field="f:conditions"),
        written("1970-01-01T00:09:00Z", subresource=""),
    ]
    assert read({"startTime": "1970-01-01T00:02:00Z"}, {"managedFields": entries}).rejected_at == 60


def test_that_a_restarted_kubelet_writes_the_status_again_is_no_later_rejection() -> None:
    metadata = {"managedFields": [written("1970-01-01T00:09:00Z")], "creationTimestamp": "1970-01-01T00:01:00Z"}
    assert read({"startTime": "1970-01-01T00:02:00Z"}, metadata).rejected_at == 120
    assert read({"startTime": "1970-01-01T00:00:30Z"}, metadata).rejected_at == 60  # its clock is behind
    ran = [{"containerID": "x", "restartCount": 1}]  # admitted first, and rejected when its kubelet restarted
    assert read({"startTime": "1970-01-01T00:02:00Z", "containerStatuses": ran}, metadata).rejected_at == 540


def test_else_when_the_kubelet_first_reported_on_it() -> None:
    assert read({"startTime": "1970-01-01T00:02:00Z"}).rejected_at == 120
    assert read(metadata={"creationTimestamp": "1970-01-01T00:03:00Z"}).rejected_at == 180
    assert read(metadata={"creationTimestamp": None}).rejected_at is None
