"""The bench measures what it describes, and its lines have the documented fields."""

import json

import pytest

from tests.bench import __main__ as command
from tests.bench import engine, measure
from tests.bench.engine_cluster import asked, fleet
from tests.bench.plain import decide_plainly
from tests.unit.engine.decisions import decision


def test_the_plain_loop_and_the_arrays_come_to_the_same_decision() -> None:
    cluster = fleet(200, 4)
    for cpus in (1, 8, 16):
        plain = decide_plainly(cluster.state, asked(cpus), 64)
        best = decision(cluster.state, asked(cpus)).best(64)
        assert [(-one.score, one.node, *one.numa_nodes) for one in best] == plain


def test_every_line_has_the_fields_that_programs_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "SIZES", [(20, 2)])
    monkeypatch.setattr(measure, "_BUDGET_NS", 0)
    assert command.main(["--json", "--only", "engine"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all({"bench", "nodes", "zones", "what", "ns", "ratio_to_read"} <= line.keys() for line in lines)
    whats = [line["what"] for line in lines]
    assert len(whats) == len(set(whats))
    assert command.main(["--only", "engine"]) == 0
    assert "20 nodes x 2 NUMA nodes  whole decision, cached" in capsys.readouterr().out


def test_an_unknown_bench_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--only", "engine,warp"])
    assert "unknown bench warp: there are engine" in capsys.readouterr().err
