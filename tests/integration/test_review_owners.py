"""`review` of a live cluster reads the owners of the objects, and gives the answer of the service."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.gated import SINGLE, SPEC, Pods, pod
from tests.cluster.kinds import CRDS
from tests.cluster.nodes import Machine
from tests.unit.cli.conftest import run_review

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from webhook.model.raw import Draft
INHERIT = "topology-webhook.dev/inherit"
LABELS = {"app": "w"}


pytestmark = pytest.mark.usefixtures("shared_webhook")


def reviewed(raw: Draft, pods: Pods, folder: Path) -> Draft:
    """The entry of one object, reviewed against the live cluster."""
    file = folder / "object.json"
    file.write_text(json.dumps(raw))
    outcome = run_review("-f", file, "-o", "json", "--kubeconfig", pods.plane.kubeconfig, cluster=None)
    (entry,) = outcome.json
    return {**entry, "stderr": outcome.stderr}


def pod_of(owner: Draft, pods: Pods) -> Draft:
    """A pod that inherits from its owner. The owner is not its controller, which would delete it."""
    reference = {key: owner["metadata"][key] for key in ("name", "uid")}
    reference |= {key: owner[key] for key in ("apiVersion", "kind")}
    metadata = {"name": "p", "namespace": pods.namespace, "annotations": {INHERIT: "true"}}
    spec = pod("", cpu=8)["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "ownerReferences": [reference]}, "spec": spec}


def deployment(pods: Pods) -> Draft:
    """A Deployment with a policy and without pods."""
    template = {"metadata": {"labels": LABELS}, "spec": pod("", cpu=8)["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template}
    path = f"/apis/apps/v1/namespaces/{pods.namespace}/deployments"
    created: Draft = pods.plane.api.create(path, {"metadata": {"name": "w", "annotations": SINGLE}, "spec": spec})
    return created


def replica_set_of(pods: Pods) -> Draft:
    path = f"/apis/apps/v1/namespaces/{pods.namespace}/replicasets"
    (found,) = pods.plane.wait_for("its ReplicaSet", lambda: pods.plane.api.get(path)["items"])
    return {**found, "apiVersion": "apps/v1", "kind": "ReplicaSet"}


def test_a_pod_takes_what_stands_two_owners_up(known: Callable[..., None], pods: Pods, tmp_path: Path) -> None:
    known(Machine("n0", free=(4, 4)), Machine("n1", free=(4, 8)))
    deployment(pods)
    raw = pod_of(replica_set_of(pods), pods)
    entry = reviewed(raw, pods, tmp_path)
    assert (entry["warnings"], entry["stderr"]) == ([], "")
    assert entry["podSets"][0]["policy"] == "SingleNUMANode"
    assert [best["node"] for best in entry["nodes"]["best"]] == ["n1"]
    created = pods.create(raw)["metadata"]["name"]
    pods.wait_until_bound(created)
    assert pods.get(created)["metadata"]["annotations"][SPEC] == SINGLE[SPEC]
    assert pods.allocation(created) == ("n1", entry["nodes"]["best"][0]["numaNodes"])


def test_a_workload_takes_what_its_owner_asks_for(known: Callable[..., None], pods: Pods, tmp_path: Path) -> None:
    known(Machine("n0", free=(8, 8)))
    deployment(pods)
    below = replica_set_of(pods)
    below["spec"]["replicas"] = 1
    del below["metadata"]["annotations"]
    entry = reviewed(below, pods, tmp_path)
    assert (entry["warnings"], entry["podSets"][0]["policy"]) == ([], "SingleNUMANode")


@pytest.mark.parametrize("change", [{"name": "gone"}, {"uid": "another"}], ids=["gone", "another of its name"])
def test_an_owner_that_is_not_there_is_told(
    change: dict[str, str], known: Callable[..., None], pods: Pods, tmp_path: Path
) -> None:
    known(Machine("n0", free=(8, 8)))
    raw = pod_of(deployment(pods), pods)
    raw["metadata"]["ownerReferences"][0] |= change
    entry = reviewed(raw, pods, tmp_path)
    name = raw["metadata"]["ownerReferences"][0]["name"]
    (warning,) = entry["warnings"]
    assert warning.startswith(f"its owner Deployment {name} is neither among the objects nor in the cluster")
    assert entry["message"] == "unmanaged: neither it nor its owners ask for a placement"


@contextlib.contextmanager
def kind_that_cannot_be_read(plane: ControlPlane) -> Iterator[None]:
    """The kind Broken, whose v1 objects no webhook converts."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    client = {"url": "https://127.0.0.1:1/convert"}
    definition = {
        "metadata": {"name": "brokens.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Broken", "plural": "brokens"},
            "scope": "Namespaced",
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            },
            "versions": [
                {"name": "v1", "served": True, "storage": False, "schema": schema},
                {"name": "v2", "served": True, "storage": True, "schema": schema},
            ],
        },
    }
    plane.api.create(CRDS, definition)
    try:
        yield
    finally:
        plane.api.delete(f"{CRDS}/brokens.example.com")


def test_an_owner_that_cannot_be_read_is_told_and_ends_nothing(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, tmp_path: Path
) -> None:
    known(Machine("n0", free=(8, 8)))
    path = f"/apis/example.com/v2/namespaces/{pods.namespace}/brokens"

    def created() -> Any:
        try:
            return control_plane.api.create(path, {"apiVersion": "example.com/v2", "kind": "Broken", **metadata})
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    metadata = {"metadata": {"name": "b"}}
    with kind_that_cannot_be_read(control_plane):
        owner = control_plane.wait_for("the kind", created)
        entry = reviewed(pod_of({**owner, "apiVersion": "example.com/v1"}, pods), pods, tmp_path)
    assert f"Broken {pods.namespace}/b, an owner, cannot be read: " in entry["stderr"]
    assert entry["warnings"][0].startswith("its owner Broken b is neither among the objects nor in the cluster")


def test_an_owner_of_a_reference_that_names_no_object_is_not_read(
    known: Callable[..., None], pods: Pods, tmp_path: Path
) -> None:
    known(Machine("n0", free=(8, 8)))
    raw = pod_of(deployment(pods), pods)
    raw["metadata"]["ownerReferences"][0]["kind"] = "Pods?watch=1"
    entry = reviewed(raw, pods, tmp_path)
    with pytest.raises(ApiError) as refused:
        pods.create(raw)
    assert entry["verdict"] == "deny"
    assert entry["message"] in refused.value.message
