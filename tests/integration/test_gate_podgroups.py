"""PodGroups of KAI-Scheduler follow the gangs, on the real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.kinds import CRDS
from tests.cluster.nodes import RACK_LABEL
from tests.cluster.racked import RACKS, racks, webhook
from tests.integration.members import member
from tests.integration.pod_groups import groups, says
from tests.integration.workloads import SINGLE, job, jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.gated import Pods
    from tests.cluster.webhook_process import LocalWebhook

__all__ = ["racks", "webhook"]  # fixtures

POD_GROUPS_CRD = "podgroups.scheduling.run.ai"


def test_a_job_has_its_pod_group_which_tells_of_it_follows_it_and_goes_with_it(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(1, 1)
    body = job("train", 17, {**RACKS, **SINGLE})
    body["metadata"]["labels"] = {"kai.scheduler/queue": "research"}
    created = control_plane.api.create(jobs(pods), body)
    uid = created["metadata"]["uid"]
    name = f"pg-train-{uid}"
    control_plane.wait_for("the PodGroup to say why its gang waits", lambda: says(pods, name, "waiting: gang"))
    found = groups(pods)[name]
    assert found["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    ]
    assert found["metadata"]["labels"] == {"kai.scheduler/queue": "research"}
    assert found["spec"] == {
        "minMember": 17,
        "queue": "research",
        "topologyConstraint": {"topology": "racks", "requiredTopologyLevel": RACK_LABEL},
    }
    # a rack has 16: without the last all go
    control_plane.api.patch(f"{jobs(pods)}/train", {"spec": {"parallelism": 16}})
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 16)
    control_plane.wait_for("the group to follow", lambda: groups(pods)[name]["spec"]["minMember"] == 16)
    control_plane.wait_for("and to say so", lambda: says(pods, name, "placed in rack-0: 16 pods on "))
    assert set(groups(pods)) == {name}
    # what somebody else adds stays, what somebody else takes away comes back
    path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{pods.namespace}/podgroups/{name}"
    control_plane.api.patch(path, {"spec": {"topologyConstraint": None, "markUnschedulable": True}})
    control_plane.wait_for("it to be mended", lambda: "topologyConstraint" in groups(pods)[name]["spec"])
    assert groups(pods)[name]["spec"]["markUnschedulable"] is True
    control_plane.api.delete(f"{jobs(pods)}/train", {"propagationPolicy": "Background"})
    control_plane.wait_for("it to go with its owner", lambda: groups(pods) == {})


def test_a_group_that_pods_name_themselves_and_one_of_another_scheduler_have_none(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(1, 1)
    for number in range(2):
        pods.create(member("own", number, 2))
    other = job("other", 1, {**RACKS, **SINGLE})
    other["spec"]["template"]["spec"]["schedulerName"] = "kai-scheduler"
    control_plane.api.create(jobs(pods), other)
    control_plane.api.create(jobs(pods), job("train", 1, {**RACKS, **SINGLE}))
    pods.wait_until_bound("own-0", "own-1")
    control_plane.wait_for("that of the third", lambda: groups(pods))
    control_plane.wait_for("all to go", lambda: not pods.gated())
    assert [name.startswith("pg-train-") for name in groups(pods)] == [True]


def test_where_the_kind_is_not_served_groups_are_placed_all_the_same_and_get_theirs_when_it_appears(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    racks(1, 1)
    (replica,) = webhook.replicas
    log = control_plane.folder / f"{replica.name}.log"
    before = len(log.read_text())
    control_plane.api.delete(f"{CRDS}/{POD_GROUPS_CRD}")
    try:
        # Kubernetes' own PodGroups are absent from the start, and said to be.
        control_plane.wait_for(
            "it to be noticed",
            lambda: any(
                "discovery.absent" in line and POD_GROUPS_CRD in line for line in log.read_text()[before:].splitlines()
            ),
        )
        begin = len(log.read_text())
        control_plane.api.create(jobs(pods), job("train", 4, {**RACKS, **SINGLE}))
        control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 4)
        told = [line for line in log.read_text()[begin:].splitlines() if "podgroup" in line.lower()]
        assert [line for line in told if '"level":"info"' not in line] == []
        assert len(told) <= 1
    finally:
        control_plane.install_crds()
    control_plane.wait_for(
        "its group", lambda: any(says(pods, name, "placed in rack-0: 4 pods on ") for name in groups(pods))
    )
