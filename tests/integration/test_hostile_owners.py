"""Hostile owner references and owners that hang, next to honest tenants, on the real cluster."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import machines
from tests.integration.processes import process_lives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.webhook_process import LocalWebhook

__all__ = ["process_lives"]  # a fixture

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Of a group that the chart's role may read.
GROUP = "kubeflow.org"
MIN_MEMBER = "topology-webhook.dev/min-member"
BAD = {
    "kind": ("kind", "Pods?watch=1&x="),
    "a path in kind": ("kind", "../../../../version?x="),
    "a path in apiVersion": ("apiVersion", "../version?x="),
    "a path in name": ("name", "../../../../version?x="),
    "another namespace": ("name", "../../../namespaces/default/jobs/theirs"),
}
# Of a name that no Job has the garbage collector deletes the pod; kinds that it does not know it leaves.
LASTING = [(field, value) for field, value in BAD.values() if field != "name"]


@pytest.fixture(scope="module", autouse=True)
def webhook(shared_webhook: LocalWebhook) -> LocalWebhook:
    return shared_webhook


def owned(pod_name: str, /, **reference: str) -> dict[str, Any]:
    """A pod that inherits from its owner."""
    raw = pod(pod_name, cpu=1, annotations={MIN_MEMBER: "1"})
    raw["metadata"]["ownerReferences"] = [reference_of(**reference)]
    return raw


def reference_of(**fields: str) -> dict[str, Any]:
    named = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "00000000-0000-0000-0000-000000000001"}
    # Not its controller: the controller of Jobs gives back pods that its selector does not find.
    return {**named, **fields}


@pytest.mark.parametrize(("field", "value"), BAD.values(), ids=BAD)
def test_a_reference_that_can_name_no_object_is_refused_at_creation(
    known: Callable[..., None], pods: Pods, field: str, value: str
) -> None:
    known(*machines(1, 2, prefix="own"))
    with pytest.raises(ApiError) as refused:
        pods.create(owned("bad", **{field: value}))
    assert f"metadata.ownerReferences.{field}" in refused.value.message
    assert value in refused.value.message


def test_one_that_is_added_later_is_not_read_its_pod_says_why_and_others_are_placed(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(*machines(1, 4, prefix="own"))
    for number in range(len(LASTING)):
        waits = pod(f"bad-{number}", cpu=1, annotations={MIN_MEMBER: "2", "pod-group-name": f"g{number}"})
        pods.create(waits)
    for number, (field, value) in enumerate(LASTING):
        reference = {"metadata": {"ownerReferences": [reference_of(**{field: value})]}}
        control_plane.api.patch(f"{pods.path}/bad-{number}", reference)
    for number, (field, _) in enumerate(LASTING):
        pods.wait_until_says(f"bad-{number}", f"metadata.ownerReferences.{field}")
    pods.create(pod("honest", cpu=8))
    pods.create(pod("honest-member", cpu=8, annotations={MIN_MEMBER: "1"}))
    pods.wait_until_bound("honest", "honest-member")
    assert len(pods.gated()) == len(LASTING)


@contextlib.contextmanager
def silent_socket() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1000)
        yield listening.getsockname()[1]


@contextlib.contextmanager
def hanging_kind(control_plane: ControlPlane) -> Iterator[None]:
    """The kind Hang, stored as v1. A read as v2 waits for a webhook that never answers."""
    with silent_socket() as port:
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": f"https://127.0.0.1:{port}/"}}
        body = {
            "metadata": {"name": f"hangs.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"kind": "Hang", "plural": "hangs"},
                "versions": [
                    {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
                ],
                "conversion": {"strategy": "Webhook", "webhook": webhook},
            },
        }
        control_plane.api.create(CRDS, body)
        try:
            control_plane.wait_for("the kind to be served", lambda: _is_served(control_plane))
            yield
        finally:
            control_plane.api.delete(f"{CRDS}/hangs.{GROUP}")


def _is_served(control_plane: ControlPlane) -> bool:
    conditions = control_plane.api.get(f"{CRDS}/hangs.{GROUP}").get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def test_owners_that_hang_hold_up_no_other_tenant_and_no_other_pod_of_their_own(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(*machines(4, 4, prefix="own"))
    hostile, count = "test-hostile", 40
    control_plane.create_namespace(hostile)
    theirs = Pods(control_plane, hostile)
    try:
        with hanging_kind(control_plane):
            path = f"/apis/{GROUP}/v1/namespaces/{hostile}/hangs"
            for number in range(count):
                body = {"apiVersion": f"{GROUP}/v1", "kind": "Hang", "metadata": {"name": f"h{number}"}}
                uid = control_plane.api.create(path, body)["metadata"]["uid"]
                named = {"apiVersion": f"{GROUP}/v2", "kind": "Hang", "name": f"h{number}", "uid": uid}
                theirs.create(owned(f"hang-{number}", **named))
            theirs.wait_until_told("hang-0", "WaitingForPlacement", "its owners: no answer within 5 s")
            # Of the others none waits for them: honest pods with an owner, without one, and the tenant's own.
            job = _job(pods, "w")
            honest = owned("member-0", name="w", uid=job["metadata"]["uid"])
            pods.create(honest)
            pods.create(pod("single", cpu=8))
            theirs.create(pod("own", cpu=8))
            pods.wait_until_bound("member-0", "single")
            theirs.wait_until_bound("own")
            assert theirs.gated() == {f"hang-{number}" for number in range(count)}
    finally:
        control_plane.delete_namespace(hostile)


def _job(pods: Pods, name: str) -> dict[str, Any]:
    template = {"spec": {**pod("")["spec"], "restartPolicy": "Never"}}
    body = {"metadata": {"name": name}, "spec": {"suspend": True, "template": template}}
    created: dict[str, Any] = pods.plane.api.create(f"/apis/batch/v1/namespaces/{pods.namespace}/jobs", body)
    return created
