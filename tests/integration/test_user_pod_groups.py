"""PodGroups that users write for KAI-Scheduler, on the real control plane."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.builders.pod_groups import constraint, pod_group
from tests.cluster.answers import reviewed
from tests.cluster.gated import pod
from tests.cluster.racked import TOPOLOGY, rack_of, racks, webhook
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


def test_subgroups_in_different_topologies_each_get_one_domain_of_their_own(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane, tmp_path: Path
) -> None:
    # Two racks of 16 nodes with a NUMA node each; a pod takes one. Row x has the even nodes of both racks, row y the
    # odd ones: a row has room for b's 12 pods only if a leaves it enough.
    racks(2, 1)
    nodes = sorted(each["metadata"]["name"] for each in control_plane.api.get("/api/v1/nodes")["items"])
    rows = {name: "xy"[number % 2] for number, name in enumerate(nodes)}
    for name, row in rows.items():
        control_plane.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"example.com/row": row}}})
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "rows"},
        "spec": {"levels": [{"nodeLabel": "example.com/row"}]},
    }
    control_plane.api.create(TOPOLOGY, topology)
    try:
        body = pod_group(
            {"name": "a", "minMember": 6, "topologyConstraint": constraint("rack", topology="racks")},
            {"name": "b", "minMember": 12, "topologyConstraint": constraint("row", topology="rows")},
            name="mine",
            namespace=pods.namespace,
        )
        members = [member(subgroup, number) for subgroup, count in (("a", 6), ("b", 12)) for number in range(count)]
        names = [raw["metadata"]["name"] for raw in members]
        for raw in members:
            raw["metadata"]["namespace"] = pods.namespace
        documents = [body, *({"apiVersion": "v1", "kind": "Pod", **raw} for raw in members)]
        entries = reviewed(documents, tmp_path, "--kubeconfig", control_plane.kubeconfig)
        assert {entry["verdict"] for entry in entries} == {"allow"}
        assert entries[0]["group"]["topologies"] == ["racks", "rows"]
        assert [part["name"] for part in entries[0]["group"]["gangs"][0]["parts"]] == ["a", "b"]
        control_plane.api.create(f"/apis/scheduling.run.ai/v2alpha2/namespaces/{pods.namespace}/podgroups", body)
        for name in names:
            subgroup, _, number = name.partition("-")
            pods.create(member(subgroup, int(number)))
        pods.wait_until_bound(*names)
        found = pods.all()
        assert len({rack_of(pods, name) for name in names if name.startswith("a-")}) == 1
        assert len({rows[found[name]["spec"]["nodeName"]] for name in names if name.startswith("b-")}) == 1
        assert len({raw["spec"]["nodeName"] for raw in found.values()}) == 18
        said = found["b-0"]["metadata"]["annotations"]
        assert said["kai.scheduler/topology"] == "rows"
        assert list(json.loads(said["topology-webhook.dev/domain"])) == ["example.com/row"]
        assert "of topology racks, b: row " in said["topology-webhook.dev/placement"]
    finally:
        control_plane.api.delete(f"{TOPOLOGY}/rows")
