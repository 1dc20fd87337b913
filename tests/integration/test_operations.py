"""The commands of docs/operations.md in the order of a release's life. tests/upgrade runs those of an upgrade."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.documented import commands, type_in
from tests.cluster.job_pods import job_pods
from tests.cluster.nodes import machines
from tests.cluster.webhook_process import NAMESPACE, RELEASE, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

OPERATIONS = "docs/operations.md"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}"
VALUES = "topology-webhook-values.yaml"


def test_a_release_is_checked_scaled_rolled_back_backed_up_and_removed_by_the_documented_commands(
    control_plane: ControlPlane, known: Callable[..., None], tmp_path: Path
) -> None:
    def replicas() -> int:
        return int(control_plane.api.get(DEPLOYMENT)["spec"]["replicas"])

    def installed() -> str:
        return control_plane.helm("get", "manifest", RELEASE, "--namespace", NAMESPACE)

    with local_webhook(control_plane) as webhook, job_pods(control_plane, NAMESPACE) as jobs:
        assert webhook.wait_until_called()
        known(*machines(1, 2, prefix="operated"))
        before = installed()

        *check, logs = commands(OPERATIONS, "## Install")
        type_in(control_plane, *check)
        assert logs.endswith(f"logs {RELEASE}-test")  # no kubelet has it here
        assert [run.code for run in jobs.runs] == [0]

        scale, status = commands(OPERATIONS, "## Scale")
        type_in(control_plane, scale)
        assert (replicas(), "rollout status" in status) == (3, True)  # no kubelet runs the new pods here
        type_in(control_plane, *commands(OPERATIONS, "## Roll back"))
        assert (replicas(), installed()) == (0, before)

        backup, restore = commands(OPERATIONS, "## Back up")
        for line in (backup, restore):
            type_in(control_plane, line.replace(VALUES, str(tmp_path / VALUES)))
        assert installed() == before

        uninstall, delete_namespace, *_ = commands(OPERATIONS, "### With Helm")
        type_in(control_plane, uninstall)
        # No kubelet ends the pods that scaling created. They would keep the namespace.
        control_plane.kubectl("delete", "pods", "--all", "--force", "--namespace", NAMESPACE)
        type_in(control_plane, delete_namespace)
        assert [run.code for run in jobs.runs] == [0, 0]
    left = control_plane.kubectl("get", "namespaces,clusterroles,clusterrolebindings", "--output=name").split()
    assert not [name for name in left if f"/{RELEASE}" in name]
