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


# s (single-numa-node) [16 16]   weak (none) [16 16]    [free cpus]
def test_a_node_that_enforces_nothing_comes_last_and_is_said_to(tmp_path: Path) -> None:
    strong, weak = [node(name="s"), nrt(node="s", free=(16, 16))], nrt(node="weak", free=(16, 16), policy="none")
    both = [*strong, node(name="weak"), weak]
    entry = answered("review", tmp_path, both, pod(cpu=7)).json[0]
    assert [one["node"] for one in entry["nodes"]["best"]] == ["s", "weak"]
    assert entry["warnings"] == []
    (tmp_path / "alone").mkdir()
    entry = answered("review", tmp_path / "alone", both[2:], pod(cpu=7)).json[0]
    assert entry["verdict"] == "allow"
    assert "not enforced there: policy none" in entry["message"]
    (warning,) = entry["warnings"]
    assert warning == (
        "SingleNUMANode is asked for, and the best node that fits now is weak; not enforced there: policy none"
    )


def test_a_cluster_that_enforces_nothing_denies_strict_pods_if_it_is_set_so(tmp_path: Path) -> None:
    cluster = [node(name="weak"), nrt(node="weak", free=(16, 16), policy="none")]
    file = tmp_path / "given"
    file.mkdir()
    arguments = ("-f", written(file, pod(cpu=7)), "-o", "json", "--unenforced", "Deny")
    entry = run_command("review", *arguments, cluster=written(tmp_path, *cluster)).json[0]
    assert entry["verdict"] == "deny"
    assert "nodes that do not enforce it are excluded (unenforced: Deny)" in entry["message"]
    assert entry["nodes"]["excluded"] == {"NotEnforced": 1}
