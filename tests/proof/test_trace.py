"""A recorded cluster becomes machines and workloads, within the nodes' capacity and in the order of the pods."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.proof.scenarios import GPU
from tests.proof.trace import FILL, SYNTHETIC, replayed
from tests.proof.workload import ControllerKind
from webhook.simulation.trace import TraceError

if TYPE_CHECKING:
    from pathlib import Path

NODES = """sn,cpu_milli,memory_mib,gpu,model
a,96000,393216,8,G
b,32000,131072,0,
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
late,3152,2048,1,500,,BE,Running,70,100,70
early,11300,8192,1,1000,,LS,Running,5,90,6
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "openb_node_list_all_node.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS)
    return tmp_path


def test_nodes_become_machines_with_everything_shared_out(trace: Path) -> None:
    scenario = replayed(trace, seed=1, nodes=10, seconds=10.0)
    machines = {machine.name: machine for machine in scenario.machines}
    assert set(machines) == {"a", "b"}
    assert machines["b"].numa_nodes == 2
    assert machines["a"].millicores == 96_000
    assert sum(machines["a"].devices[GPU]) == 8
    assert not machines["b"].devices


def test_pods_come_in_their_order_and_fill_the_nodes(trace: Path) -> None:
    scenario = replayed(trace, seed=1, nodes=10, seconds=10.0)
    times = [workload.at for workload in scenario.workloads]
    assert times == sorted(times)
    assert times[-1] < scenario.steady_from
    names = [workload.name.split("-")[0] for workload in scenario.workloads]
    assert all(one != other for one, other in itertools.pairwise(names))
    gpus = sum(int(workload.containers[0].get(GPU, 0)) for workload in scenario.workloads)
    assert gpus == int(FILL * 8)


def test_services_get_whole_cpus_and_an_annotation_and_best_effort_jobs_neither(trace: Path) -> None:
    scenario = replayed(trace, seed=1, nodes=10, seconds=10.0)
    by_name = {workload.name.split("-")[0]: workload for workload in scenario.workloads}
    assert (by_name["early"].kind, by_name["early"].policy) == (ControllerKind.REPLICA_SET, "Restricted")
    assert by_name["early"].containers[0]["cpu"] == "12"
    assert (by_name["late"].kind, by_name["late"].policy) == (ControllerKind.JOB, None)
    assert by_name["late"].containers[0] == {"cpu": "3152m", "memory": "2048Mi", GPU: "1"}


def test_the_seed_draws_the_nodes() -> None:
    drawn = [
        [machine.name for machine in replayed(SYNTHETIC, seed=seed, nodes=10, seconds=10.0).machines]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_our_own_trace_asks_for_nearly_all_of_something() -> None:
    scenario = replayed(SYNTHETIC, seed=0, nodes=100, seconds=10.0)
    assert len(scenario.machines) == 60
    gpus = sum(sum(machine.devices.get(GPU, ())) for machine in scenario.machines)
    asked = sum(int(workload.containers[0].get(GPU, 0)) for workload in scenario.workloads)
    cpus = sum(workload.millicores for workload in scenario.workloads)
    assert max(asked / gpus, cpus / scenario.millicores) > 0.85


def test_a_folder_without_a_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="must hold one file"):
        replayed(tmp_path, seed=0, nodes=1, seconds=1.0)
