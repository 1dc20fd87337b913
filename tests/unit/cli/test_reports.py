"""What users of neighbouring projects reported, as clusters and pods: the commands give the right answer."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.pods import bound, guaranteed, pod
from tests.unit.cli.cluster_files import written
from tests.unit.cli.conftest import Printed, run_command
from webhook.model.names import KUBELET_OPTIONS, NUMA_ALLOCATION

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


def answered(command: str, folder: Path, cluster: Sequence[dict[str, Any]], workload: dict[str, Any]) -> Printed:
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


# gb1: NUMA 0 and 1 [70 cpus, 2 gpus], and 32 NUMA nodes of GPU memory that have nothing; NUMA 9 may have some memory
@pytest.mark.parametrize(
    ("published", "stated", "policy", "memory", "verdict"),
    [
        ("64", None, "single-numa-node", False, "allow"),
        ("64", None, "restricted", True, "allow"),
        (None, "max-allowable-numa-nodes=34", "single-numa-node", False, "allow"),
        (None, None, "single-numa-node", False, "wait"),
        (None, "max-allowable-numa-nodes=33", "single-numa-node", False, "wait"),
        (None, None, "none", False, "allow"),
    ],
)
def test_numa_nodes_that_have_nothing_count_for_the_kubelets_limit_only(
    tmp_path: Path, published: str | None, stated: str | None, policy: str, memory: bool, verdict: str
) -> None:
    cpus = [resource(name="cpu", capacity=72, allocatable=70), resource(name=GPU, capacity=2)]
    of_gpus = [resource(name="cpu", capacity=0)]
    zones = [zone(numa_id=numa_id, resources=cpus if numa_id < 2 else of_gpus) for numa_id in range(34)]
    if memory:
        zones[9] = zone(numa_id=9, resources=[resource(name="memory", capacity="96Gi")])
        zones[0]["resources"] = zones[1]["resources"] = [*cpus, resource(name="memory", capacity="470Gi")]
    limit = {} if published is None else {"topologyManagerMaxNUMANodes": published}
    gb1 = node(name="gb1", cpus=140, memory="940Gi", devices={GPU: 4})
    gb1["metadata"]["annotations"] = {} if stated is None else {KUBELET_OPTIONS: stated}
    cluster = [gb1, nrt(node="gb1", zones=zones, policy=policy, attributes=limit)]
    answer = answered(
        "review", tmp_path, cluster, pod(cpu=16, memory="32Gi", devices={GPU: 1}, numa='{"numaTopologyPolicy": ""}')
    )
    (found,) = answer.json
    assert found["verdict"] == verdict
    if verdict == "wait":
        assert "34 NUMA nodes: with policy single-numa-node its kubelet does not start on more than" in found["message"]
        assert KUBELET_OPTIONS in found["message"]
    elif policy != "none":
        assert found["nodes"]["best"][0]["numaNodes"] == [0]


# n1 (restricted, empty)  NUMA 0 and 1 [32 cpus, 125Gi, 4 gpus each]: the first container's memory is on both, so the
# second one's can be on both only, and that is not preferred.
@pytest.mark.parametrize("devices", [{}, {GPU: 6}])
@pytest.mark.parametrize("second", [{}, {GPU: 1}])
def test_a_big_container_leaves_no_single_numa_node_for_the_memory_of_a_small_one(
    tmp_path: Path, devices: dict[str, int], second: dict[str, int]
) -> None:
    whole = [resource(name="cpu", capacity=32), resource(name="memory", capacity="125Gi"), GPUS]
    big = guaranteed(name="big", cpu=40, memory="130Gi", devices=devices)
    small = guaranteed(name="small", cpu=2, memory="4Gi", devices=second)
    workload = pod(containers=[big, small], numa='{"numaTopologyPolicy": "Restricted"}')
    answer = answered("review", tmp_path, machine([whole, whole], "restricted", gpus=8), workload).json[0]
    assert answer["verdict"] == "deny"
    assert "memory of one container needs 2 NUMA nodes, and those give none to a container" in answer["message"]


# n1 [31 31] cpus, [49 49] GiB, of 20Mi of huge pages on each NUMA node [0 16] free: the pod there has them on both
@pytest.mark.parametrize(
    ("policy", "verdict", "numa_nodes"), [("restricted", "wait", []), ("best-effort", "allow", [0, 1])]
)
def test_huge_pages_over_two_numa_nodes_keep_both_for_such_pods(
    tmp_path: Path, policy: str, verdict: str, numa_nodes: list[int]
) -> None:
    def listed(pages: str) -> list[Mapping[str, Any]]:
        rest = [resource(name="cpu", capacity=31), resource(name="memory", capacity="49Gi")]
        return [*rest, resource(name="hugepages-2Mi", capacity="20Mi", available=pages)]

    pages: dict[str, Any] = {"hugepages-2Mi": "24Mi"}
    there = bound(
        name="pod1", node="n1", numa=None,
        containers=[guaranteed(name="c", cpu="1500m", memory="24Mi", devices=pages)],
    )  # fmt: skip
    taken = [{"memory": "24Mi", "hugepages-2Mi": "20Mi"}, {"hugepages-2Mi": "4Mi"}]
    shares = [{"node": numa_id, "resources": amounts} for numa_id, amounts in enumerate(taken)]
    del there["metadata"]["creationTimestamp"]  # it is older than the NodeResourceTopology, which has its amounts
    there["metadata"]["annotations"] = {NUMA_ALLOCATION: json.dumps({"node": "n1", "numaNodeResources": shares})}
    cluster = [*machine([listed("0"), listed("16Mi")], policy), there]
    cluster[0]["status"]["allocatable"]["hugepages-2Mi"] = "40Mi"
    pages = {"hugepages-2Mi": "16Mi"}
    workload = pod(cpu=2, memory="16Mi", devices=pages, numa='{"numaTopologyPolicy": ""}')
    answer = answered("review", tmp_path, cluster, workload).json[0]
    assert answer["verdict"] == verdict
    if numa_nodes:
        assert answer["nodes"]["best"][0]["numaNodes"] == numa_nodes
    else:
        assert "resources cannot be aligned" in answer["message"]
