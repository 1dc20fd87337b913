"""The examples and the snapshot of docs/review.md on the real control plane, as a reader would type it."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.control_plane import CRDS
from tests.cluster.gated import PLACEMENT, Pods
from tests.cluster.nodes import Machine, present
from tests.cluster.racked import rack_of
from tests.cluster.webhook_process import local_webhook
from tests.integration.example_cluster import node_arrays
from tests.unit.cli.conftest import EXAMPLES, run_review

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

# Idle, beside the snapshot's, which would hold the gang only if it came first.
SPARE = [
    Machine(f"spare-{number}", free=(16, 16), labels={"example.com/hall": "hall-1", "example.com/rack": "rack-3"})
    for number in range(4)
]
RACKS = EXAMPLES / "snapshots" / "racks.yaml"
KUEUES = CRDS / "kueue.x-k8s.io_topologies.yaml"


@pytest.fixture(scope="module")
def racks(control_plane: ControlPlane) -> Iterator[None]:
    """The machines of the snapshot, and some more."""
    control_plane.kubectl("create", "--filename", RACKS)
    try:
        with present(control_plane.api, SPARE):
            yield
    finally:
        control_plane.kubectl("delete", "--filename", RACKS)


@pytest.mark.usefixtures("racks")
def test_all_examples_are_created_in_one_go_and_placed(control_plane: ControlPlane, namespace: str) -> None:
    pods = Pods(control_plane, namespace)
    with local_webhook(control_plane), contextlib.ExitStack() as stack:
        stack.callback(control_plane.kubectl, "delete", "topologies.kai.scheduler", "cluster")
        control_plane.kubectl("create", "--namespace", namespace, "--filename", EXAMPLES)
        control_plane.wait_for("all pods to be bound", lambda: len(pods.bound()) == 1 + 2 + 1 + 1 + 8)
        training = [name for name in pods.bound() if name.startswith("training-")]
        assert len({rack_of(pods, name) for name in training}) == 1
        assert "annotations" not in pods.get("bystander")["metadata"]
        assert pods.get("solver")["metadata"]["annotations"][PLACEMENT].startswith("placed on ")


@pytest.mark.usefixtures("racks")
@pytest.mark.parametrize("missing", [None, KUEUES], ids=["all kinds", "a kind missing"])
def test_the_snapshot_has_all_kinds_that_there_are(
    missing: Path | None, control_plane: ControlPlane, tmp_path: Path
) -> None:
    _, _, job = (EXAMPLES / "gang.yaml").read_text().partition("\n---\n")
    groups = {"kai.scheduler": "v1alpha1", "kueue.x-k8s.io": "v1beta1"}
    with contextlib.ExitStack() as stack:
        for group, version in groups.items():
            control_plane.kubectl("create", "--filename", "-", input=topology(f"{group}/{version}", group))
            stack.callback(control_plane.kubectl, "delete", f"topologies.{group}", group, "--ignore-not-found")
        if missing:
            stack.callback(control_plane.install_crds)
            control_plane.kubectl("delete", "--filename", missing)
        cluster, errors = node_arrays(control_plane, tmp_path)
    # PodGroups are served where their CRD or feature is on.
    assert errors.count('doesn\'t have a resource type "topologies"') == (1 if missing else 0)
    for group in groups:
        (tmp_path / "job.yaml").write_text(job.replace("topology: cluster", f"topology: {group}"))
        (entry,) = run_review("-f", tmp_path / "job.yaml", "-o", "json", cluster=cluster).json
        assert entry["verdict"] == ("deny" if missing and group in missing.name else "allow")


def topology(api_version: str, name: str) -> str:
    levels = [{"nodeLabel": "example.com/rack"}]
    raw = {"apiVersion": api_version, "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels}}
    return json.dumps(raw)
