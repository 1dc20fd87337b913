"""`review` of Grove's objects: PodGangs with their pods, and PodCliqueSets, whose pods do not exist yet."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.grove import binding, labels, pack, pod_gang, podgroup
from tests.builders.nodes import node
from tests.builders.pods import plain
from tests.unit.cli.conftest import Printed, Review

ZONE, RACK = LEVELS = ("example.com/zone", "example.com/rack")

# zone-a ─┬─ rack-1 ─── a1 [3]                [free CPUs]
#         └─ rack-2 ─── a2 [4]
# zone-b ─── rack-3 ─┬─ b3 [4]
#                    └─ b4 [4]
PLACES = {"a1": ("a", "1", 3), "a2": ("a", "2", 4), "b3": ("b", "3", 4), "b4": ("b", "3", 4)}
CLUSTER = [
    binding(*LEVELS),
    *(node(name=name, cpus=cpus, labels=dict(zip(LEVELS, at, strict=True))) for name, (*at, cpus) in PLACES.items()),
]

Judge = Callable[..., Printed]


@pytest.fixture
def judge(review: Review, tmp_path: Path) -> Judge:
    def run(*objects: dict[str, Any], on: bool = True) -> Printed:
        (tmp_path / "cluster.json").write_text("\n".join(map(json.dumps, CLUSTER)))
        (tmp_path / "objects.json").write_text("\n".join(map(json.dumps, objects)))
        setting = "--grove-pod-gangs=true" if on else "--grove-pod-gangs=false"
        return review("-f", tmp_path / "objects.json", "-o", "json", setting, cluster=tmp_path / "cluster.json")

    return run


def clique(name: str, replicas: int, **how: Any) -> dict[str, Any]:
    return {"name": name, "spec": {"replicas": replicas, "podSpec": plain(cpu=1)["spec"]}, **how}


def decode(replicas: int, rack: str = "rack") -> dict[str, Any]:
    """A scaling group of which two replicas start with the base, each in one rack."""
    constraint = {"pack": {"required": rack}}
    names = ["leader", "worker"]
    return {
        "name": "decode",
        "cliqueNames": names,
        "replicas": replicas,
        "minAvailable": 2,
        "topologyConstraint": constraint,
    }


def clique_set(*cliques: dict[str, Any], groups: list[dict[str, Any]], topology: str = "network") -> dict[str, Any]:
    whole = {"topologyConstraint": {"topologyName": topology, "packDomain": "zone"}}
    template = {"cliques": list(cliques), "podCliqueScalingGroups": groups, **whole}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s"},
        "spec": {"replicas": 2, "template": template},
    }


CLIQUES = (clique("router", 1), clique("leader", 1), clique("worker", 2))


def test_a_pod_clique_set_gets_the_answer_to_the_pods_of_its_podgangs(judge: Judge) -> None:
    found = judge(clique_set(*CLIQUES, groups=[decode(4)]))
    (entry,) = found.json
    assert (found.code, entry["verdict"], entry["warnings"]) == (0, "allow", [])
    assert entry["message"].startswith("gang s-0: 7 pods ")
    assert "; then gang s-0-decode-0: 3 pods " in entry["message"]
    placed = {one["name"]: one["node"] for one in entry["group"]["pods"]}
    assert placed.keys() == {
        "s-0-router-0",
        *(f"s-0-decode-{n}-{pod}" for n in (0, 1) for pod in ("leader-0", "worker-0", "worker-1")),
    }
    racks = [{PLACES[at][1] for name, at in placed.items() if f"decode-{n}" in name} for n in (0, 1)]
    assert [len(each) for each in racks] == [1, 1]
    assert len({PLACES[at][0] for at in placed.values()}) == 1


def test_one_that_fits_nowhere_waits_with_the_reason(judge: Judge) -> None:
    found = judge(clique_set(clique("leader", 4), clique("worker", 6), groups=[decode(2)]))
    (entry,) = found.json
    assert (found.code, entry["verdict"]) == (1, "wait")
    assert "gang s-0 does not fit now: zone b holds 8 of 20 pods" in entry["message"]


def test_a_domain_that_is_no_level_is_a_warning(judge: Judge) -> None:
    (entry,) = judge(clique_set(*CLIQUES, groups=[decode(2, "rock")])).json
    (warning,) = set(entry["warnings"])
    assert 'spec.template.podCliqueScalingGroups[0].topologyConstraint: "rock" is no level of it.' in warning
    entry = judge(clique_set(*CLIQUES, groups=[], topology="other")).json[0]
    assert any('There is no ClusterTopologyBinding "other"' in warning for warning in entry["warnings"])


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (clique_set(groups=[]), "spec.template.cliques: There are none"),
        (clique_set(clique("leader", 1), groups=[decode(2)]), "There is no clique 'worker'"),
        (clique_set(clique("a", 10**9), groups=[]), "At most 4096 can be reviewed"),
        (clique_set(clique("a", 0), groups=[]), "spec.template.cliques[0].spec.replicas: 0 is not a number"),
        (clique_set(clique("a", -1), groups=[]), "spec.template.cliques[0].spec.replicas: -1 is not a number"),
    ],
)
def test_what_grove_would_reject_is_an_error_with_its_field(judge: Judge, raw: dict[str, Any], says: str) -> None:
    found = judge(raw)
    assert found.code == 2
    assert says in found.stderr


def test_a_podgang_in_a_file_has_the_answer_of_its_pods_and_its_faults_and_unknown_fields_are_warnings(
    judge: Judge,
) -> None:
    gang = pod_gang(podgroup("a", 3), namespace="", **pack(RACK))
    pods = [plain(name=f"a-{n}", cpu=1, metadata={"labels": labels("a", n)}) for n in range(3)]
    found = judge(gang, *pods)
    assert (found.code, {entry["verdict"] for entry in found.json}) == (0, {"allow"})
    assert len({PLACES[one["node"]][1] for one in found.json[0]["group"]["pods"]}) == 1
    faulty = pod_gang(podgroup("a", -1), namespace="", **pack(RACK))
    faulty["spec"]["podGroups"] = []
    first, *others = judge(faulty, *pods).json
    assert any("spec.podgroups[0].minReplicas: -1 is not a number" in warning for warning in first["warnings"])
    assert any("spec.podGroups is not read. Did you mean podgroups?" in warning for warning in first["warnings"])
    assert {entry["verdict"] for entry in others} == {"wait"}


def test_a_pod_clique_set_whose_podgang_exists_is_not_counted_twice(judge: Judge) -> None:
    found = judge(pod_gang(podgroup("s-0-router", 1), name="s-0", namespace=""), clique_set(CLIQUES[0], groups=[]))
    assert found.json[1]["message"].startswith("its PodGang s-0 is there already")


def test_without_the_setting_both_say_that_they_are_not_read(judge: Judge) -> None:
    entries = judge(clique_set(*CLIQUES, groups=[]), pod_gang(podgroup("a", 1), namespace=""), on=False).json
    assert {entry["message"] for entry in entries} == {
        "unmanaged: Grove's PodGangs are not read (setting grovePodGangs)"
    }
