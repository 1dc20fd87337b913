"""Random machines with real kubelets answer as the simulated kubelet does, and as the engine predicts.

What a kubelet answers, and what must follow from it, is compared by tests/conformance/recordings.py.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.assets import wanted_version
from tests.cluster.real_kubelets import ImpossibleError, require_possible
from tests.cluster.toolchain import parse_version
from tests.cluster.versions import versions
from tests.conformance import recordings
from tests.conformance.__main__ import main
from tests.conformance.random_machines import plays
from tests.conformance.recorder import record
from tests.integration.hosts import host_state, marked, running, running_kubelets

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "conformance" / "recorded"
SEED = int(os.environ.get("TOPOLOGY_WEBHOOK_TEST_SEED") or 1)
MACHINES = 4
"""One of each policy."""


@pytest.fixture
def possible() -> None:
    try:
        require_possible(2 * MACHINES)
    except ImpossibleError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("possible")
def test_real_kubelets_answer_as_simulated_ones_and_as_predicted(control_plane: ControlPlane) -> None:
    major, minor = parse_version(wanted_version())[:2]
    cases = record(control_plane, plays(SEED, MACHINES, 4, (major, minor)), f"seed-{SEED}", print)
    found = recordings.check(cases)
    assert all(tally.passes for tally in found), "\n".join(line for tally in found for line in tally.lines(20))
    assert [len(case["pods"]) for case in cases] == [4] * MACHINES


@pytest.mark.long
@pytest.mark.timeout(5400)  # building another version takes minutes, and longer on a busy machine
@pytest.mark.usefixtures("possible")
@pytest.mark.parametrize("version", versions())
def test_real_kubelets_of_each_version_do_so_at_length(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--machines", str(2 * MACHINES), "--pods", "40", "--seed", str(SEED), "--kubernetes", version]
    status = main(["record", *arguments])
    assert status == 0, capsys.readouterr()


def test_what_real_kubelets_have_answered_comes_out_again_and_is_predicted(
    programs: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--cases", str(RECORDED)]) == 0, capsys.readouterr().out


def first(case: dict[str, Any], *, admit: bool) -> dict[str, Any]:
    found: dict[str, Any] = next(pod for pod in case["expect"]["pods"] if pod["admit"] is admit)
    return found


def flip(case: dict[str, Any]) -> None:
    first(case, admit=False)["admit"] = True


def other_message(case: dict[str, Any]) -> None:
    first(case, admit=False)["message"] += "."


def other_cpus(case: dict[str, Any]) -> None:
    first(case, admit=True)["containers"][0]["cpuList"] = "99"


def other_memory(case: dict[str, Any]) -> None:
    first(case, admit=True)["containers"][0]["memory"] = [{"numaAffinity": [0], "type": "memory", "size": 1}]


def lost(case: dict[str, Any]) -> None:
    first(case, admit=True)["lost"] = "TopologyAffinityError"


@pytest.mark.parametrize("spoil", [flip, other_message, other_cpus, other_memory, lost])
def test_a_planted_difference_is_found(
    spoil: Callable[[dict[str, Any]], None], programs: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = gzip.decompress((RECORDED / "random_machines.jsonl.gz").read_bytes()).splitlines()
    cases = [json.loads(line) for line in lines]
    case = next(case for case in cases if {True, False} <= {pod["admit"] for pod in case["expect"]["pods"]})
    spoil(case)
    (tmp_path / "spoiled.jsonl").write_text(json.dumps(case))
    assert main(["--cases", str(tmp_path)]) == 1
    assert case["id"] in capsys.readouterr().out


@pytest.mark.usefixtures("possible", "programs")
def test_a_killed_recorder_leaves_no_program_and_no_mount(tmp_path: Path) -> None:
    host = host_state(tmp_path)
    before = host()
    command = [sys.executable, "-m", "tests.conformance", "record", "--machines", "2"]
    with subprocess.Popen(command, cwd=ROOT, env=marked(tmp_path)) as process:
        try:
            wait_until(lambda: len(running_kubelets(tmp_path)) == 2)
        finally:
            process.kill()
    wait_until(lambda: not running(tmp_path))
    assert host() == before


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
