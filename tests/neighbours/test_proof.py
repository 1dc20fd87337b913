"""The proof on real kubelets, in small: beside each exporter, and killed.

    n0 n1      [15 16 free CPUs by NUMA node]

The CPUs of the nodes are enough for five pods of 10 CPUs together, their NUMA nodes for four.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.kubelets import SimulatedMachine
from tests.cluster.up import tell
from tests.integration.hosts import marked, running
from tests.proof.real import REAL_SCENARIOS, reason_against
from tests.proof.run import run
from tests.proof.scenario import ProofScenario, RealExporter
from tests.proof.workload import Burst

if TYPE_CHECKING:
    from collections.abc import Mapping

BUILT = "/neighbours/"
"""In the path of each exporter's program (tests/neighbours/build.py)."""


def small(exporter: str) -> ProofScenario:
    machines = [SimulatedMachine(f"n{number}", reserved_cpus="0") for number in range(2)]
    pods = Burst("large", 5, [{"cpu": "10", "memory": "10Gi"}])
    return ProofScenario("small", machines, [pods], 30.0, 20.0, exporter=RealExporter(exporter, 5))


@pytest.fixture(autouse=True)
def possible() -> None:
    if reason := reason_against([small("rte"), REAL_SCENARIOS["devices"](0)]):
        pytest.skip(reason)


@pytest.mark.parametrize(
    "exporter",
    [pytest.param("rte", marks=pytest.mark.neighbour("rte")), pytest.param("nfd", marks=pytest.mark.neighbour("nfd"))],
)
def test_real_kubelets_reject_no_pod_and_give_each_what_its_allocation_says(
    exporter: str, programs: Mapping[str, Path]
) -> None:
    row = run(small(exporter), programs, tell, webhook=True, seed=0)
    assert (row.kubelets, row.created, row.running, row.rejected) == ("real", 5, 4, 0)
    assert (row.hints, row.wrong_hints) == (4, 0)


@pytest.mark.neighbour("rte")
@pytest.mark.usefixtures("programs")
def test_of_a_killed_run_no_program_and_no_mount_is_left(tmp_path: Path) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    command = [sys.executable, "-m", "tests.proof", "--kubelets", "real", "--scenario", "devices", "--webhook"]
    killed = subprocess.Popen(command, cwd=Path(__file__).parents[2], env=marked(tmp_path))
    try:
        exporters = len(REAL_SCENARIOS["devices"](0).machines)
        while sum(BUILT in line for line in running(tmp_path)) < exporters:
            assert killed.poll() is None
            time.sleep(0.2)
    finally:
        killed.kill()
        killed.wait()
    deadline = time.monotonic() + 60
    while left := running(tmp_path):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert Path("/proc/self/mountinfo").read_text() == mounts
