"""The examples can be created together, and `review` answers each of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.unit.cli.conftest import EXAMPLES, run_review

if TYPE_CHECKING:
    from pathlib import Path

FILES = sorted(EXAMPLES.rglob("*.yaml"))
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
