"""A short round of the measurement: the service works with the synthetic API server, and all figures are documented."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.scale.__main__ import main
from tests.scale.fleet import EqualMachines
from tests.scale.storage import PODS, TOPOLOGIES, Storage
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """Those of 200 nodes. `main` is called once, because a start of the service takes seconds."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        printed: list[str] = []
        monkeypatch.setattr("builtins.print", lambda text, **_: printed.append(text))
        short = ["--nodes", "200", "--seconds", "2", "--churn", "5", "--flood", "200", "--json"]
        assert main(short) == 0
    (line,) = (json.loads(text) for text in printed if text.startswith('{"bench"'))
    return dict(line)


def test_every_pod_is_placed_and_bound_in_a_cluster_of_200_nodes(figures: dict[str, Any]) -> None:
    steady = figures["steady"]
    assert steady["failed"] == []
    assert steady["bound"] == steady["created"] > 0
    assert figures["log"] == []
    assert (figures["nodes"], figures["pods"]) == (200, 2000)


def test_the_page_documents_every_figure(figures: dict[str, Any]) -> None:
    rows = re.findall(r"^\| (`[\w.]+`(?:, `[\w.]+`)*) \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(_paths(figures)) == sorted(name for row in rows for name in re.findall(r"`([\w.]+)`", row))


def _paths(figures: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The path of every figure; quantiles count as one."""
    for name, value in figures.items():
        if isinstance(value, dict) and value.keys() != {"p50", "p99", "max"}:
            yield from _paths(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def test_the_objects_of_the_synthetic_cluster_are_read_without_a_fault() -> None:
    storage = Storage(EqualMachines(3, 8, 10))
    topologies = json.loads(storage.pages(TOPOLOGIES, 0, 500))["items"]
    read = [NodeTopology.from_object(raw) for raw in topologies]
    assert [(one.problems, len(one.zones)) for one in read] == [((), 8)] * 3
    assert all(one.written_at and one.fingerprint for one in read)
    pods = [ResidentPod.from_object(raw) for raw in json.loads(storage.pages(PODS, 0, 500))["items"]]
    assert len(pods) == 30
    # Four of ten pods hold half of a NUMA node, which the NRT shows as taken.
    assert [pod.allocation[0][0] for pod in pods[:4] if pod.allocation] == [0, 1, 2, 3]
    assert [zone.resources["cpu"].available for zone in read[0].zones] == [8_000] * 4 + [16_000] * 4


def test_pages_continue_where_the_last_one_ended() -> None:
    storage = Storage(EqualMachines(3, 2, 4))
    first = json.loads(storage.pages(PODS, 0, 5))
    last = json.loads(storage.pages(PODS, int(first["metadata"]["continue"]), 500))
    assert "continue" not in last["metadata"]
    names = [raw["metadata"]["name"] for raw in first["items"] + last["items"]]
    assert len(set(names)) == len(names) == 12
