"""Workloads that existed before the service, on the real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.controllers import Controllers, collection
from tests.cluster.gated import Pods, wait_until_known
from tests.cluster.kinds import KINDS, served
from tests.cluster.nodes import machines
from tests.cluster.racked import RACKS, rack_of, topology_of_racks
from tests.cluster.webhook_process import local_webhook
from tests.integration.workloads import INHERIT, SINGLE, deployment, deployments, template

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


# rack-0 ── 16 nodes
# rack-1 ── 16 nodes, among them that of the first pod
def test_a_pod_that_was_bound_while_nobody_answered_counts_in_the_group_that_its_owner_makes(
    control_plane: ControlPlane, pods: Pods, create_machines: Callable[..., None]
) -> None:
    create_machines(*machines(32, 1, prefix="old"))
    (kind,) = (kind for kind in KINDS if kind.kind == "PyTorchJob")
    # Marked before, while no replica answered.
    marked = template(annotations={INHERIT: "true"})
    with served(control_plane, [kind]):
        workload = kind.workload({**RACKS, **SINGLE}, marked)
        owner = control_plane.api.create(collection(pods.namespace, kind.api_version, kind.kind), workload)
        controllers = Controllers(control_plane, pods.namespace)
        in_rack_1 = {**marked, "spec": {**marked["spec"], "nodeSelector": {"kubernetes.io/hostname": "old-0016"}}}
        controllers.pod(owner, "w-master-0", in_rack_1, {})
        pods.wait_until_bound("w-master-0")
        with topology_of_racks(control_plane), local_webhook(control_plane):
            wait_until_known(pods, 32)
            workers = [f"w-worker-{number}" for number in range(3)]
            for name in workers:
                controllers.pod(owner, name, marked, {})
            pods.wait_until_bound(*workers)
            assert groups_of_bound(pods) == {f"pg-w-{owner['metadata']['uid']}"}
            assert {rack_of(pods, name) for name in workers} == {"rack-1"}


def groups_of_bound(pods: Pods) -> set[str]:
    """The gangs of bound pods that have the mark."""
    annotations = [pods.get(name)["metadata"].get("annotations", {}) for name in pods.bound()]
    return {each["pod-group-name"] for each in annotations if INHERIT in each and "pod-group-name" in each}
