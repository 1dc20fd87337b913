"""The examples can be created together, and `review` answers each of them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.unit.cli.conftest import EXAMPLES, run_command, run_review

if TYPE_CHECKING:
    from pathlib import Path

# Those of examples/values are the chart's (tests/chart).
FILES = [file for file in sorted(EXAMPLES.rglob("*.yaml")) if file.parent.name != "values"]
RACKS = EXAMPLES / "snapshots" / "racks.yaml"


def objects(*files: Path) -> list[dict[str, Any]]:
    return [raw for file in files for raw in yaml.safe_load_all(file.read_text()) if raw]


def test_no_two_examples_have_the_same_name() -> None:
    names = Counter((raw["kind"], raw["metadata"]["name"]) for raw in objects(*FILES))
    assert [name for name, count in names.items() if count > 1] == []


def test_what_is_created_in_one_go_needs_no_operator_and_makes_no_nodes() -> None:
    kinds = {raw["kind"] for raw in objects(*EXAMPLES.glob("*.yaml"))}
    assert kinds == {"Pod", "Deployment", "Job", "Topology"}


def test_all_but_the_mistakes_are_allowed_where_the_racks_are_free() -> None:
    outcome = run_review("-f", EXAMPLES, "-f", EXAMPLES / "operators", "-o", "json", cluster=RACKS)
    verdicts = {entry["object"]["name"]: entry["verdict"] for entry in outcome.json}
    assert len(verdicts) == len(objects(*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("operators/*.yaml")))
    assert set(verdicts.values()) == {"allow"}


@pytest.mark.parametrize(("order", "verdict"), [("topology first", "allow"), ("topology last", "deny")])
def test_a_topology_is_there_for_what_follows_it(order: str, verdict: str, tmp_path: Path) -> None:
    topology, job = objects(EXAMPLES / "gang.yaml")
    documents = [topology, job] if order == "topology first" else [job, topology]
    (tmp_path / "gang.yaml").write_text(yaml.safe_dump_all(documents))
    outcome = run_review("-f", tmp_path / "gang.yaml", "-o", "json", cluster=RACKS)
    assert [entry["verdict"] for entry in outcome.json if entry["object"]["kind"] == "Job"] == [verdict]


BUSY = EXAMPLES / "snapshots" / "busy.yaml"
PAGES = (EXAMPLES.parent / "README.md", *sorted((EXAMPLES.parent / "docs").glob("*.md")))
ASKED_ABOUT = sorted(
    {
        file
        for page in PAGES
        for call in re.findall(r"^\$ topology-webhook (.*)$", page.read_text(), re.MULTILINE)
        for file in re.findall(r"-f (examples/\S+)", call)
    }
)


@pytest.mark.parametrize("file", ASKED_ABOUT)
def test_what_the_docs_ask_about_can_be_asked_of_the_busy_cluster(file: str) -> None:
    assert run_review("-f", EXAMPLES.parent / file, cluster=BUSY).code == 0


def busy(command: str, *arguments: object) -> Any:
    outcome = run_command(command, *arguments, "-o", "json", cluster=BUSY)
    assert outcome.stderr == ""
    return outcome.json


def test_the_busy_cluster_has_something_of_everything_that_waits() -> None:
    waiting = busy("waiting")["waiting"]
    assert {pod["waitsFor"] for one in waiting for pod in one["pods"]} == {"Service", "OtherGates", "Scheduler"}
    assert [one["name"] for one in waiting if one["gang"]] == ["pg-train-qaakq"]
    assert {one["frees"]["helps"] for one in waiting if one["frees"]} == {"Pods", "Slots", "Unknown"}


def test_the_busy_cluster_has_something_of_everything_that_audit_finds() -> None:
    found = busy("audit")
    assert all(found[finding] for finding in ("rejections", "spanningPods", "splitGangs", "manage"))
    nodes = found["nodes"]
    assert {name for name in nodes if nodes[name] == []} == {"unreadable", "unreported", "kubeletOptions"}
    assert {"none", "best-effort", "restricted", "single-numa-node"} == set(nodes["policies"])


def test_one_move_lets_the_gang_of_the_busy_cluster_start() -> None:
    plan = {one["name"]: one for one in busy("defrag")["plan"]}
    moves = plan["pg-train-qaakq"]["moves"]
    assert [(move["name"], move["node"], move["toNode"]) for move in moves] == [
        ("chat-7d9f5-k2x4p", "gpu-11", "gpu-21")
    ]


def test_the_busy_cluster_has_racks_gangs_reservations_and_devices() -> None:
    (racks,) = busy("tree")["topologies"]
    assert [hall["value"] for hall in racks["root"]["domains"]] == ["hall-1", "hall-2", None]
    assert [gang["pods"] for gang in racks["root"]["gangs"]] == [2]
    assert [each["resource"] for each in racks["root"]["amounts"]] == ["cpu", "memory", "nvidia.com/gpu"]
    assert [each["name"] for each in busy("nodes", "gpu-21")["reservations"]] == ["ben-0"]
    devices = busy("nodes", "dra-51")["devices"]
    assert [(one["numaNode"], bool(one["claims"]), bool(one["taints"])) for one in devices] == [
        (0, True, False), (0, False, False), (1, False, False), (1, False, True)
    ]  # fmt: skip
    (train, *_) = busy("explain", "job/train", "-n", "research")["waiting"]
    assert train
