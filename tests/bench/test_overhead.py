"""The overhead bench runs on a small cluster, and its lines have the documented fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench import overhead
from tests.bench.overhead_cluster import ALIKE, WAYS, Setup

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest


def test_every_way_of_admission_is_measured_and_the_pods_get_their_nodes(
    programs: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert programs
    monkeypatch.setattr(
        overhead, "SETUPS", [Setup("Never", 1), Setup("Never", 1, "All", unmanaged=True), Setup("Always", 2)]
    )
    monkeypatch.setattr(overhead, "ROUNDS", 1)
    monkeypatch.setattr(overhead, "PODS", 40)
    monkeypatch.setattr(overhead, "PACED", 4)
    lines = list(overhead.lines([4]))
    kinds = [("creates", "annotated", WAYS), ("creates", "plain", ALIKE), ("bound", "annotated", ALIKE)]
    unmanaged = [("creates", "unmanaged", ALIKE)]
    setups = (1, "Annotated", kinds), (1, "All", unmanaged), (2, "Annotated", kinds)
    assert [(line["replicas"], line["manage"], line["what"], line["pods"], line["webhook"]) for line in lines] == [
        (replicas, manage, what, pods, way)
        for replicas, manage, kinds in setups
        for what, pods, ways in kinds
        for way in ways
    ]
    for line in lines:
        assert {"bench", "nodes", "gate", "cpu_us"} <= line.keys()
        if line["what"] == "creates":
            assert line["creates_per_second"] > 0
            assert line["create_ms"]["p50"] > 0
            assert line["ratio_to_noop"] == 1 or line["webhook"] != "noop"
        else:
            assert (line["bound"], line["of"]) == (4, 4)
            assert line["bound_ms"]["p50"] > 0
        assert "nodes" in overhead.text(line)
