"""What users of neighbouring projects reported, as clusters and pods: the commands give the right answer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.pods import pod
from tests.unit.cli.cluster_files import written
from tests.unit.cli.conftest import Outcome, run_command

GPU = "example.com/gpu"
RESERVED = resource(name="cpu", capacity=32, allocatable=0)
"""What exporters list of a NUMA node with nothing to allocate."""
GPUS = resource(name=GPU, capacity=4)


def machine(zones: Sequence[Sequence[Mapping[str, Any]]], policy: str, gpus: int = 0) -> list[dict[str, Any]]:
    listed = [zone(numa_id=numa_id, resources=resources) for numa_id, resources in enumerate(zones)]
    devices = {GPU: gpus} if gpus else {}
    return [
        node(name="n1", cpus=62, memory="250Gi", devices=devices),
        nrt(node="n1", zones=listed, policy=policy),
    ]


def answered(command: str, folder: Path, cluster: Sequence[dict[str, Any]], workload: dict[str, Any]) -> Outcome:
    file = folder / "given"
    file.mkdir()
    return run_command(
        command, "-f", written(file, workload), "-o", "json", "--manage", "All", cluster=written(folder, *cluster)
    )


# n1 (cpu manager none)   NUMA 0 [32 cpus, 0 allocatable]   NUMA 1 [likewise]
@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("asked", ["", None])
def test_a_kubelet_without_static_cpu_manager_is_not_full(tmp_path: Path, policy: str, asked: str | None) -> None:
    spec = None if asked is None else '{"numaTopologyPolicy": ""}'
    answer = answered("review", tmp_path, machine([[RESERVED], [RESERVED]], policy), pod(cpu=8, numa=spec)).json[0]
    assert (answer["verdict"], answer["nodes"]["fit"]) == ("allow", 1)
    assert answer["nodes"]["best"][0]["numaNodes"] == []


def test_a_default_kubelet_rejects_nothing_in_a_simulation(tmp_path: Path) -> None:
    asks_nothing = pod(cpu=8, numa='{"numaTopologyPolicy": ""}')
    runs = answered("simulate", tmp_path, machine([[RESERVED], [RESERVED]], "none"), asks_nothing).json["runs"]
    assert [(run["rejected"], run["running"]) for run in runs] == [(0, 1), (0, 1)]


# n1 (cpu manager none)   NUMA 0 [4 gpus]   NUMA 1 [32 cpus, 0 allocatable]
def test_devices_are_aligned_without_the_cpus(tmp_path: Path) -> None:
    cluster = machine([[GPUS], [RESERVED]], "single-numa-node", gpus=4)
    answer = answered("review", tmp_path, cluster, pod(cpu=8, devices={GPU: 1})).json[0]
    assert (answer["verdict"], answer["nodes"]["best"][0]["numaNodes"]) == ("allow", [0])
