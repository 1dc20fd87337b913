"""`topology-webhook simulate` on the scenarios of the proof: what it tells beforehand is what real components do.

The numbers of the real components are those in the table of simulated machines of docs/how-it-works.md.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.proof.scenarios import SCENARIOS
from tests.proof.simulated import cluster_of, objects_of
from tests.unit.cli.conftest import run_command

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = Path(__file__).parents[2] / "docs" / "how-it-works.md"
# The loop of create, schedule, reject and recreate on the test-bed: 8 pods were recreated about 1,000 times in 20 s.
ROUND_SECONDS = 0.15


def simulated(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The runs without and with the webhook."""
    scenario = SCENARIOS[name](0)
    cluster, objects = (
        written(folder / f"{file}.json", raws)
        for file, raws in (("cluster", cluster_of(scenario)), ("objects", objects_of(scenario)))
    )
    times = ("--seconds", scenario.seconds, "--steady-from", scenario.steady_from)
    again = ("--recreate-seconds", ROUND_SECONDS, "--recreations", 1000)
    outcome = run_command("simulate", "-f", objects, "--cluster", cluster, *times, *again, "-o", "json")
    assert (outcome.code, outcome.stderr) == (0, ""), outcome.stderr
    without, with_it = outcome.json["runs"]
    return without, with_it


def written(file: Path, objects: Iterable[dict[str, Any]]) -> Path:
    file.write_text("\n".join(map(json.dumps, objects)))
    return file


def measured(name: str, webhook: str) -> tuple[int, int, int | None, float]:
    """Pods run, rejected, in their rack, and utilisation of a row in the page's table."""
    _, _, table = PAGE.read_text().partition("<!-- proof-simulated: begin -->")
    (row,) = re.findall(rf"^\| {name} \| {webhook} \| (.*) \|$", table, re.MULTILINE)
    run, rejected, in_rack, _, used, *_ = (cell.strip().replace(",", "") for cell in row.split("|"))
    return int(run), int(rejected), int(in_rack) if in_rack else None, float(used.removesuffix("%")) / 100


@pytest.mark.parametrize("name", ["replicaset", "mixed", "devices", "burst", "gangs"])
def test_a_simulation_gives_what_real_components_do(tmp_path: Path, name: str) -> None:
    for run, webhook in zip(simulated(tmp_path, name), ("without", "with"), strict=True):
        ran, rejected, in_rack, used = measured(name, webhook)
        # Which nodes the scheduler chooses first depends on the moment at which controllers create the pods.
        assert run["running"] == pytest.approx(ran, rel=0.03 if run["webhook"] else 0.12)
        assert (run["rejected"] > 0) == (rejected > 0)
        assert run["utilisation"] == pytest.approx(used, abs=0.02 if run["webhook"] else 0.1)
        assert (run["inDomain"] is None) == (in_rack is None)
        if in_rack is not None:
            assert run["inDomain"] == pytest.approx(in_rack, abs=8)
