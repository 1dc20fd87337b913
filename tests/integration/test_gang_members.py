"""Members that disagree, pods of other owners, and nodes that are deleted under a gang, on the real control plane."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.audit import overcommitted, racks_at_odds
from tests.cluster.gated import Pods, is_gated, pod
from tests.cluster.nodes import delete_nodes, machines
from tests.cluster.racked import RACKS, rack_of, racks, racks_of, webhook

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane

__all__ = ["racks", "webhook"]  # fixtures

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
MINIMUM = "topology-webhook.dev/min-member"


def member(name: str, group: str = "g", of: int = 4, **spec: Any) -> dict[str, Any]:
    return pod(name, cpu=16, annotations={"pod-group-name": group, MINIMUM: str(of), **RACKS}, **spec)


@pytest.mark.parametrize("first", [True, False], ids=["created first", "created last"])
def test_one_pod_with_a_vast_minimum_and_high_priority_blocks_no_group_of_four(
    first: bool, racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(2, 1)
    high = f"{pods.namespace}-high"
    control_plane.api.create(CLASSES, {"metadata": {"name": high}, "value": 1_000_000})
    try:
        raw = member("odd", of=100_000, priorityClassName=high)
        control_plane.wait_for("the priority class to be known", partial(_is_let_in, pods, raw))
        odd = partial(pods.create, raw)
        if first:
            odd()
        for number in range(3):
            pods.create(member(f"g-{number}"))
        if not first:
            odd()
        pods.create(member("g-3"))
        pods.wait_until_bound("g-0", "g-1", "g-2", "g-3")
        assert len(racks_of(pods, "g")) == 1
        pods.wait_until_says("odd", f'[{MINIMUM}] is "100000" and that of the other members is "4"')
        assert is_gated(pods.get("odd"))
    finally:
        control_plane.api.delete(f"{CLASSES}/{high}")


def test_a_topology_that_one_member_asks_for_in_vain_is_its_own_affair(
    racks: Callable[[int, int], None], pods: Pods
) -> None:
    racks(2, 1)
    odd = member("odd")
    odd["metadata"]["annotations"]["kai.scheduler/topology"] = "nowhere"
    pods.create(odd)
    for number in range(4):
        pods.create(member(f"g-{number}"))
    pods.wait_until_bound("g-0", "g-1", "g-2", "g-3")
    assert len(racks_of(pods, "g")) == 1
    pods.wait_until_told("odd", "WaitingForPlacement", 'There is no topology "nowhere"')
    assert is_gated(pods.get("odd"))


def test_a_member_that_fits_nowhere_does_not_keep_as_many_as_must_start_together(
    racks: Callable[[int, int], None], pods: Pods
) -> None:
    racks(2, 1)
    odd = member("odd")
    odd["spec"]["containers"] = pod("odd", cpu=1000)["spec"]["containers"]
    pods.create(odd)
    for number in range(4):
        pods.create(member(f"g-{number}"))
    pods.wait_until_bound("g-0", "g-1", "g-2", "g-3")
    pods.wait_until_told("odd", "WaitingForPlacement")
    assert is_gated(pods.get("odd"))


def test_a_stranger_in_a_jobs_group_neither_joins_nor_takes_its_ranks(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(2, 1)
    template = {"metadata": {"annotations": dict(RACKS)}, "spec": {**pod("", cpu=16)["spec"], "restartPolicy": "Never"}}
    # More than a rack holds: it waits, and can be named.
    spec = {"parallelism": 17, "completions": 17, "completionMode": "Indexed", "template": template}
    path = f"/apis/batch/v1/namespaces/{pods.namespace}/jobs"
    job = control_plane.api.create(path, {"metadata": {"name": "job"}, "spec": spec})
    name = f"pg-job-{job['metadata']['uid']}"
    intruder = member("intruder", group=name, of=1)
    intruder["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": "0"}
    pods.create(intruder)
    pods.wait_until_told("intruder", "WaitingForPlacement", "and this pod is not one of them")
    # It runs where its own manifest says, in a rack that the Job's pods are not to follow it to.
    runs = member("runs", group=name, of=1, nodeName="gang-0017")
    runs["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": "1"}
    pods.create(runs)
    pods.wait_until_bound("runs")
    fits = {**spec, "parallelism": 16}
    control_plane.api.patch(f"{path}/job", {"spec": {"parallelism": fits["parallelism"]}})
    control_plane.wait_for("the Job's pods", lambda: len([one for one in pods.bound() if one.startswith("job-")]) == 16)
    assert racks_of(pods, "job") == {"rack-0"}
    assigned = [raw["metadata"] for one, raw in pods.all().items() if one.startswith("job-")]
    indexes = [metadata["labels"]["batch.kubernetes.io/job-completion-index"] for metadata in assigned]
    assert [metadata["annotations"]["topology-webhook.dev/rank"] for metadata in assigned] == indexes
    assert is_gated(pods.get("intruder"))


def test_a_forged_rank_displaces_nobody(racks: Callable[[int, int], None], pods: Pods) -> None:
    racks(1, 1)
    labels = {"vast": "9" * 18, "same": "1", "g-0": "", "g-1": "", "g-2": ""}
    for name, rank in labels.items():
        raw = member(name, of=5)
        raw["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": rank}
        pods.create(raw)
    pods.wait_until_bound(*labels)
    ranks = {name: pods.get(name)["metadata"]["annotations"]["topology-webhook.dev/rank"] for name in labels}
    assert {ranks.pop("same"), ranks.pop("g-1")} == {"1", "3"}
    assert ranks == {"g-0": "0", "g-2": "2", "vast": "4"}


def test_members_made_again_wait_for_the_rack_in_which_the_others_run_though_nodes_are_gone(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    # two racks of 16 nodes with a NUMA node each; every member needs one
    racks(2, 1)
    for number in range(4):
        pods.create(member(f"g-{number}"))
    pods.wait_until_bound(*(f"g-{number}" for number in range(4)))
    (rack,) = racks_of(pods, "g")
    nodes = [f"gang-{number:04}" for number in range(32) if number // 16 == int(rack.removeprefix("rack-"))]
    fleet = {machine.name: machine for machine in machines(32, 1, prefix="gang")}
    # All nodes of the rack go; the pods are there until somebody collects them. One of them is recreated.
    delete_nodes(control_plane.api, nodes)
    pods.delete("g-0")
    pods.create(member("g-0"))
    pods.wait_until_says("g-0", f"its pods run in rack {rack}, which has no nodes any more")
    # A node of the rack comes back.
    control_plane.api.create("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies", fleet[nodes[-1]].topology())
    control_plane.api.create("/api/v1/nodes", fleet[nodes[-1]].node())
    pods.wait_until_bound("g-0")
    assert rack_of(pods, "g-0") == rack
    assert racks_at_odds(control_plane, pods.all().values()) == {}
    assert overcommitted(control_plane, [pods.get("g-0")]) == {}


def _is_let_in(pods: Pods, raw: dict[str, Any]) -> bool:
    try:
        pods.plane.api.create(f"{pods.path}?dryRun=All", raw)
    except ApiError:
        return False
    return True
