"""`topology-webhook audit`: the same findings for people and for programs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.nodes import node
from tests.builders.pods import plain
from tests.unit.cli.cluster_files import fields_of
from tests.unit.cli.conftest import Printed, run_command
from tests.unit.views.audit.faults import cluster, event, rejected

DOCS = Path(__file__).parents[3] / "docs" / "audit.md"


def audit(folder: Path, *arguments: object, objects: list[dict[str, Any]] | None = None) -> Printed:
    file = folder / "cluster.json"
    file.write_text("\n".join(map(json.dumps, cluster() if objects is None else objects)))
    return run_command("audit", *arguments, cluster=file)


def test_the_table_is_that_of_the_docs(tmp_path: Path) -> None:
    printed = audit(tmp_path)
    assert printed.code == 0
    (shown,) = re.findall(r"```\n(Pods that .*?)```", DOCS.read_text(), re.DOTALL)
    # The docs leave out some of what to do.
    begin, end = shown.split("…\n")
    assert printed.stdout.startswith(begin)
    assert printed.stdout.endswith(end)


def test_json_and_yaml_are_the_same_value(tmp_path: Path) -> None:
    assert yaml.safe_load(audit(tmp_path, "-o", "yaml").stdout) == audit(tmp_path, "-o", "json").json


def test_the_json_has_the_documented_fields(tmp_path: Path) -> None:
    answer = audit(tmp_path, "-o", "json").json
    nodes = answer["nodes"]
    records = {
        "AuditView": [answer],
        "RejectionView": answer["rejections"],
        "Workload": [one["workload"] for one in answer["rejections"]],
        "SpanningPodView": answer["spanningPods"],
        "SplitGangView": answer["splitGangs"],
        "NodesView": [nodes],
        "DisagreeingNode": nodes["disagreeing"],
        "UnreadableNode": nodes["unreadable"],
        "UnreportedNode": nodes["unreported"],
        "LevelView": nodes["levels"],
        "NodeOptions": nodes["kubeletOptions"],
        "RepeatedName": [one for level in nodes["levels"] for one in level["repeated"]],
        "ManageView": answer["manage"],
    }
    for record, entries in records.items():
        assert {frozenset(entry) for entry in entries} == {frozenset(fields_of(record, DOCS))}, record
    assert answer["rejections"][0] == {
        "workload": {"namespace": "team", "kind": "Deployment", "name": "web"},
        "pods": 3,
        "reasons": {"TopologyAffinityError": 2, "UnexpectedAdmissionError": 1},
        "nodes": {"n0": 2, "n1": 1},
        "manage": "Aligned",
    }


def test_a_cluster_without_faults_has_nothing_to_do(tmp_path: Path) -> None:
    objects = [raw for raw in cluster() if raw["metadata"]["name"] == "n0"]
    printed = audit(tmp_path, objects=objects)
    assert (printed.code, printed.stderr) == (0, "")
    assert printed.stdout.endswith("What to do\nNothing: there are no findings.\n")


def test_long_findings_are_cut_for_people_alone(tmp_path: Path) -> None:
    gone = [event("team", f"pod-{number}", "n0") for number in range(25)]
    objects = [node(name="n0"), *gone]
    assert "5 more with -o json" in audit(tmp_path, objects=objects).stdout.splitlines()
    assert len(audit(tmp_path, "-o", "json", objects=objects).json["rejections"]) == 25


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_what_tenants_write_cannot_control_the_terminal(tmp_path: Path, output: str) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\u202e\r\n" + "x" * 10_000
    owner = {"kind": evil, "name": evil, "controller": True, "uid": "u"}
    pod = rejected(plain(name="p", metadata={"ownerReferences": [owner]}), "n0")
    printed = audit(tmp_path, "-o", output, objects=[node(name="n0"), pod, event("team", evil, evil)])
    assert printed.code == 0
    assert all(character.isprintable() or character == "\n" for character in printed.stderr)
    if output == "table":
        assert all(character.isprintable() or character == "\n" for character in printed.stdout)
        assert max(map(len, printed.stdout.splitlines())) < 600
