"""`topology-webhook review` of PodGroups that users wrote for KAI-Scheduler, with their pods in the same file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.nodes import node
from tests.builders.pod_groups import constraint, pod_group
from tests.builders.pods import plain
from tests.builders.topologies import topology
from tests.unit.cli.conftest import Printed, Review

ZONE, SPINE, RACK = LABELS = ("topology/zone", "topology/spine", "topology/rack")

# zone-a ─┬─ spine-1 ─┬─ rack-1 ── n1 [2]                [free CPUs]
#         │           └─ rack-2 ── n2 [3]
#         └─ spine-2 ─── rack-3 ── n3 [3]
NODES = {"n1": ("a", "1", "1", 2), "n2": ("a", "1", "2", 3), "n3": ("a", "2", "3", 3)}
CLUSTER = [
    topology(labels=LABELS),
    *(node(name=name, cpus=cpus, labels=dict(zip(LABELS, at, strict=True))) for name, (*at, cpus) in NODES.items()),
]

Judge = Callable[..., Printed]


@pytest.fixture
def judge(review: Review, tmp_path: Path) -> Judge:
    def run(*objects: dict[str, Any], beside: tuple[dict[str, Any], ...] = ()) -> Printed:
        (tmp_path / "cluster.json").write_text("\n".join(map(json.dumps, [*CLUSTER, *beside])))
        (tmp_path / "objects.json").write_text("\n".join(map(json.dumps, objects)))
        return review("-f", tmp_path / "objects.json", "-o", "json", cluster=tmp_path / "cluster.json")

    return run


def pods(subgroup: str, count: int) -> list[dict[str, Any]]:
    labels = {"labels": {"kai.scheduler/subgroup-name": subgroup}}
    named = {"annotations": {"pod-group-name": "sample2"}}
    return [plain(name=f"{subgroup}-{n}", cpu=1, metadata={**labels, **named}) for n in range(count)]


def sample(*, zone: str = ZONE) -> dict[str, Any]:
    """The hierarchical example of KAI's docs/topology/multilevel.md. Its minimum of subgroups is all of them."""

    def rack_of(name: str, minimum: int, **above: str) -> dict[str, Any]:
        return {"name": name, "minMember": minimum, "topologyConstraint": constraint(RACK), **above}

    return pod_group(
        {"name": "subgroup-ab", "topologyConstraint": constraint(SPINE), "minSubGroup": 2},
        rack_of("subgroup-a", 1, parent="subgroup-ab"),
        rack_of("subgroup-b", 2, parent="subgroup-ab"),
        rack_of("subgroup-c", 3),
        name="sample2",
        topologyConstraint=constraint(zone),
        minSubGroup=2,
    )


MEMBERS = [*pods("subgroup-a", 1), *pods("subgroup-b", 2), *pods("subgroup-c", 3)]


@pytest.mark.parametrize("first", [True, False])
def test_the_answer_is_that_of_the_group_whatever_the_order_of_the_file(judge: Judge, first: bool) -> None:
    outcome = judge(*([sample(), *MEMBERS] if first else [*MEMBERS, sample()]))
    entries = [entry for entry in outcome.json if entry["object"]["kind"] == "Pod"]
    assert (outcome.code, {entry["verdict"] for entry in entries}) == (0, {"allow"})
    at = {pod["name"]: pod["node"] for pod in entries[0]["group"]["pods"]}
    assert at["subgroup-b-0"] == at["subgroup-b-1"]
    assert len({at[f"subgroup-c-{n}"] for n in range(3)}) == 1
    (of_group,) = (entry for entry in outcome.json if entry["object"]["kind"] == "PodGroup")
    assert (of_group["verdict"], of_group["group"]) == ("allow", entries[0]["group"])
    assert {at["subgroup-a-0"], at["subgroup-b-0"]} in ({"n1", "n2"}, {"n2"}, {"n3"})


def test_it_waits_as_a_whole_and_the_group_of_the_cluster_counts_as_well(judge: Judge) -> None:
    outcome = judge(*MEMBERS[:-1], beside=(sample(),))
    assert (outcome.code, {entry["verdict"] for entry in outcome.json}) == (1, {"wait"})
    assert outcome.json[0]["message"] == (
        "gang sample2: 2 of 3 of subgroup subgroup-c pods that must start together are there"
    )


def test_a_faulty_group_is_told_with_the_field_and_its_pods_wait(judge: Judge) -> None:
    group, *members = judge(sample(zone=""), *pods("subgroup-d", 1)).json
    assert (group["verdict"], group["message"]) == ("wait", members[0]["message"])
    assert members[0]["verdict"] == "wait"
    assert 'metadata.labels[kai.scheduler/subgroup-name]: "subgroup-d" is no subgroup' in members[0]["message"]
    faulty = sample()
    faulty["spec"]["subGroups"][1]["parent"] = "subgroup-bc"
    group, *members = judge(faulty, *MEMBERS).json
    assert group["warnings"] == [
        "PodGroup sample2: spec.subGroups[1].parent: There is no subgroup 'subgroup-bc'. Did you mean subgroup-c?"
    ]
    assert all(group["warnings"][0] in member["message"] for member in members)


def test_the_spelling_of_kais_documentation_is_read_with_a_warning(judge: Judge) -> None:
    raw = sample()
    raw["spec"]["subgroups"] = raw["spec"].pop("subGroups")
    group, *members = judge(raw, *MEMBERS).json
    assert "Write it so: the API server drops the other spelling." in group["warnings"][0]
    assert {member["verdict"] for member in members} == {"allow"}
