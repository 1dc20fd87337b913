"""PodGroups that users write for KAI-Scheduler, on the real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.builders.pod_groups import constraint, pod_group
from tests.cluster.answers import reviewed
from tests.cluster.gated import pod
from tests.cluster.racked import rack_of, racks, webhook
from tests.integration.pod_groups import groups

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.gated import Pods

__all__ = ["racks", "webhook"]  # fixtures


def member(subgroup: str, number: int) -> dict[str, Any]:
    raw = pod(f"{subgroup}-{number}", cpu=16, annotations={"pod-group-name": "mine"})
    raw["metadata"]["labels"] = {"kai.scheduler/subgroup-name": subgroup}
    return raw


def test_a_users_pod_group_places_its_subgroups_each_in_its_rack_and_is_left_as_it_is(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane, tmp_path: Path
) -> None:
    # two racks of 16 nodes with a NUMA node each; a pod takes one
    racks(2, 1)
    for number in range(10):
        pods.create(member("a", number))
        if number:
            pods.create(member("b", number))
    pods.wait_until_says("a-0", "and the PodGroup does not exist. Create it")
    in_a_rack = {"topologyConstraint": constraint("rack", topology="racks")}
    body = pod_group(
        {"name": "a", "minMember": 10, **in_a_rack},
        {"name": "b", "minMember": 10, **in_a_rack},
        name="mine",
        namespace=pods.namespace,
    )
    members = [member(subgroup, number) for subgroup in "ab" for number in range(10)]
    for raw in members:
        raw["metadata"]["namespace"] = pods.namespace
    documents = [body, *({"apiVersion": "v1", "kind": "Pod", **raw} for raw in members)]
    entries = reviewed(documents, tmp_path, "--kubeconfig", control_plane.kubeconfig)
    created = control_plane.api.create(f"/apis/scheduling.run.ai/v2alpha2/namespaces/{pods.namespace}/podgroups", body)
    pods.wait_until_says("b-1", "9 of 10 of subgroup b pods that must start together are there")
    pods.create(member("b", 0))
    pods.wait_until_bound(*(f"{subgroup}-{number}" for subgroup in "ab" for number in range(10)))
    of_a, of_b = ({rack_of(pods, f"{subgroup}-{number}") for number in range(10)} for subgroup in "ab")
    assert (len(of_a), len(of_b)) == (1, 1)
    assert of_a != of_b
    assert groups(pods)["mine"] == created
    # The pods are in the cluster already, all but one, and wait.
    assert {entry["verdict"] for entry in entries} == {"allow"}
    assert {one["name"]: one["node"] for one in entries[0]["group"]["pods"]} == {
        name: raw["spec"]["nodeName"] for name, raw in pods.all().items()
    }
