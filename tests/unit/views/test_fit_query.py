"""What is asked on the map gets the engine's answer, in the words of `review`."""

import json
from pathlib import Path

import pytest

from tests.builders.clusters import cluster_cache
from tests.unit.cli.conftest import run_review
from tests.unit.views.racks import GPU, RACK, TOPOLOGY, ZONE, cluster
from webhook.formats.koordinator.intent import NUMASpec
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.policy import NUMAPolicy
from webhook.placing.planner import Planner
from webhook.state.rules import Rules
from webhook.views.fit_query import MOST_PODS, Answer, FitQuery, answer
from webhook.views.node_amounts import offered_resources

OFFERED = ("cpu", "memory", GPU, "example.com/nic", "example.com/fast-nic")


PLAIN = Rules()


def read(text: str, spread: str = "SingleNUMANode", pods: str = "1", level: str = "") -> FitQuery:
    return FitQuery.read(text, spread, pods, level, OFFERED, Topology.from_object(TOPOLOGY))


def asked(
    text: str, spread: str = "SingleNUMANode", pods: str = "1", level: str = "", rules: Rules = PLAIN
) -> tuple[Answer, FitQuery]:
    """The answer, and what was asked."""
    planner = Planner(cluster_cache(*cluster()), rules)
    offered = offered_resources(planner.state.snapshot().nodes)
    query = FitQuery.read(text, spread, pods, level, offered, Topology.from_object(TOPOLOGY))
    return answer(planner, query), query


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("8 cpu, 16Gi memory", {"cpu": 8_000, "memory": 16 << 30}),
        ("8 CPU + 1 GPU", {"cpu": 8_000, GPU: 1, "memory": 1 << 30}),
        ("2 gpus and 500m cpu and 1Gi", {GPU: 2, "cpu": 500, "memory": 1 << 30}),
        ("4 cpu 16Gi of memory 1 gpu", {"cpu": 4_000, "memory": 16 << 30, GPU: 1}),
        ("1 example.com/nic", {"example.com/nic": 1}),
        ("1 nic", {"example.com/nic": 1}),
        ("1 fast", {"example.com/fast-nic": 1}),
    ],
)
def test_amounts_are_read_as_people_write_them(text: str, amounts: dict[str, int]) -> None:
    assert read(text).amounts == amounts


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("",), "Write what a pod requests, for example: 8 cpu, 1 gpu, 16Gi memory."),
        (("8 cpus of mine",), "'mine' is no amount of memory. Write amounts as in 8 cpu, 1 gpu."),
        (("x cpu",), "'x' is no amount of cpu. Write amounts as in 8 cpu, 1 gpu."),
        (("-1 cpu",), "Ask for more than '-1' cpu."),
        (("1 cpu, 2 cpu",), "cpu is named twice."),
        (("1 nvidia.com/gpus",), "No node offers 'nvidia.com/gpus'. Did you mean nvidia.com/gpu?"),
        (("1 ic",), "'ic' may be example.com/nic or example.com/fast-nic: write the whole name."),
        (("1 cpu" * 100,), "This is too long: 256 characters are read."),
        (("1 cpu", "Best"), "'Best' is no NUMA policy: SingleNUMANode, Restricted."),
        (("1 cpu", "", "0"), f"Ask for 1 to {MOST_PODS} pods, not '0'."),
        (("1 cpu", "", "9" * 5000), f"Ask for 1 to {MOST_PODS} pods, not '9"),
        (("1 cpu", "", "2", "row"), "'row' is no level of the topology."),
    ],
)
def test_a_question_that_cannot_be_read_says_why(arguments: tuple[str, ...], fault: str) -> None:
    with pytest.raises(UserError) as caught:
        read(*arguments)
    message = caught.value.faults[0].message
    assert message.startswith(fault)
    assert len(message) < 400


def test_the_nodes_and_numa_nodes_are_those_where_it_fits() -> None:
    found, _ = asked("8 cpu, 2 gpu")
    names = cluster_cache(*cluster()).snapshot().nodes.node_arrays.names
    assert {names[n]: (pods, set(ids)) for n, (pods, ids) in found.marks.places.items()} == {
        "n1": (1, {1}),
        "n3": (1, {0}),
    }
    assert {names[n]: why for n, why in found.marks.why.items()} == {
        "n0": "no single NUMA node with 8 cpu, 1Gi memory, 2 nvidia.com/gpu",
        "n2": "cordoned",
        "n4": "no NUMA topology known",
    }
    assert (found.fits, found.of_one) == (True, True)


def test_a_gang_has_its_place_in_one_rack() -> None:
    found, _ = asked("8 cpu", pods="3", level=RACK)
    names = cluster_cache(*cluster()).snapshot().nodes.node_arrays.names
    assert (found.fits, found.of_one) == (True, False)
    places = {names[n]: pods for n, (pods, _) in found.marks.places.items()}
    assert places == {"n3": 3}  # one beside 15 free CPUs, two on 16


def test_a_gang_that_does_not_fit_says_what_is_short_and_where_one_pod_would_fit() -> None:
    found, _ = asked("8 cpu", pods="9", level=RACK)
    assert (found.fits, found.of_one) == (False, True)
    assert "does not fit now" in found.message
    assert found.marks.places


@pytest.mark.parametrize(
    ("text", "spread", "pods", "level"),
    [
        ("8 cpu, 2 gpu", "SingleNUMANode", "1", ""),
        ("17 cpu", "SingleNUMANode", "1", ""),
        ("100 cpu", "SingleNUMANode", "1", ""),
        ("17 cpu", "Restricted", "1", ""),
        ("8 cpu", "SingleNUMANode", "3", RACK),
        ("8 cpu", "SingleNUMANode", "9", RACK),
        ("8 cpu", "SingleNUMANode", "5", ZONE),
        ("8 cpu", "", "2", ""),
    ],
)
def test_review_says_the_same(text: str, spread: str, pods: str, level: str, tmp_path: Path) -> None:
    found, query = asked(text, spread, pods, level)
    assert_review_says_the_same(found, query, tmp_path)


def test_the_settings_defaults_count(tmp_path: Path) -> None:
    strict = NUMASpec(NUMAPolicy.SINGLE_NUMA_NODE)
    found, query = asked("17 cpu", "", "2", rules=Rules(defaults=strict))
    assert not found.fits
    assert_review_says_the_same(found, query, tmp_path, "--default-numa-topology-policy", "SingleNUMANode")
    assert asked("17 cpu", "", "2")[0].message != found.message


def assert_review_says_the_same(found: Answer, query: FitQuery, folder: Path, *flags: str) -> None:
    file, snapshot = folder / "pods.json", folder / "cluster.json"
    file.write_text("\n".join(map(json.dumps, query.manifests())))
    snapshot.write_text("\n".join(map(json.dumps, cluster())))
    entries = run_review("-f", file, "-o", "json", *flags, cluster=snapshot).json
    assert len(entries) == query.pods
    assert {entry["message"] for entry in entries} == {found.message}
    verdicts = {entry["verdict"] for entry in entries}
    assert verdicts == {"allow"} if found.fits else verdicts <= {"wait", "deny"}
