"""Workloads that were there before the service, on the real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.gated import Pods, wait_until_known
from tests.cluster.nodes import machines
from tests.cluster.racked import RACKS, topology_of_racks
from tests.cluster.test_gate_owners import INHERIT, SINGLE, deployment, deployments
from tests.cluster.webhook_process import local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane


def test_a_deployment_that_was_annotated_before_comes_in_with_its_next_rollout(
    control_plane: ControlPlane, pods: Pods, create_machines: Callable[..., None]
) -> None:
    create_machines(*machines(4, 1, prefix="old"))
    created = control_plane.api.create(deployments(pods), deployment("web", 2, {**RACKS, **SINGLE}))
    group = f"pg-web-{created['metadata']['uid']}"
    control_plane.wait_for("its pods, anywhere", lambda: len(pods.bound()) == 2)
    with topology_of_racks(control_plane), local_webhook(control_plane):
        wait_until_known(pods, 4)
        scaled = control_plane.api.patch(f"{deployments(pods)}/web", {"spec": {"replicas": 1}})
        assert "annotations" not in scaled["spec"]["template"]["metadata"]
        control_plane.kubectl("rollout", "restart", "--namespace", pods.namespace, "deployment/web")
        found = control_plane.api.get(f"{deployments(pods)}/web")["spec"]["template"]["metadata"]["annotations"]
        assert found[INHERIT] == "true"
        control_plane.wait_for("a pod of the group", lambda: groups_of_bound(pods) == {group})


def groups_of_bound(pods: Pods) -> set[str]:
    """Of the pods that are bound and have the mark."""
    annotations = [pods.get(name)["metadata"].get("annotations", {}) for name in pods.bound()]
    return {each["pod-group-name"] for each in annotations if INHERIT in each}
