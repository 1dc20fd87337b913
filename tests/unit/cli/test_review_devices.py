"""`review` of pods with devices of Dynamic Resource Allocation: from the cluster, and from the files themselves."""

from pathlib import Path
from typing import Any

import pytest

from tests.builders.devices import claim, claim_template, device_class, gpus, request, resource_slice
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, pod
from tests.builders.workloads import template, workload
from tests.unit.cli.cluster_files import written
from tests.unit.cli.conftest import Printed, run_review

GPU = "nvidia.com/gpu"


# plugin: a GPU near each NUMA node by a device plugin    dra: 2 GPUs near NUMA node 0 in its ResourceSlice
def review(folder: Path, *files: dict[str, Any], flags: tuple[str, ...] = (), more: tuple[Any, ...] = ()) -> Printed:
    (folder / "cluster").mkdir()
    (folder / "files").mkdir()
    cluster = written(
        folder / "cluster",
        node(name="plugin", devices={GPU: 2}),
        nrt(node="plugin", free=(16, 16), devices={GPU: (1, 1)}),
        node(name="dra"),
        nrt(node="dra", free=(16, 16)),
        resource_slice("dra", gpus(0, 0)),
        device_class(resource=GPU),
        *more,
    )
    return run_review("-f", written(folder / "files", *files), "-o", "json", *flags, cluster=cluster)


def answer(outcome: Printed) -> tuple[str, str]:
    found: dict[str, Any] = outcome.json[-1]
    return found["verdict"], found["message"]


def test_slices_of_the_snapshot_count_unless_the_setting_is_off(tmp_path: Path) -> None:
    asked = pod(devices={GPU: 2})
    verdict, text = answer(review(tmp_path, asked))
    assert (verdict, "best dra" in text) == ("allow", True)
    assert (
        "not aligned with its devices: the scheduler makes the claim for nvidia.com/gpu when it binds the pod" in text
    )
    (tmp_path / "off").mkdir()
    assert answer(review(tmp_path / "off", asked, flags=("--dynamic-resources=false",)))[0] == "deny"


def test_a_template_in_the_files_counts_for_the_pods_after_it(tmp_path: Path) -> None:
    template = claim_template(requests=[request(count=2)])
    del template["metadata"]["namespace"]
    asked = pod(namespace="", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    verdict, text = answer(review(tmp_path, template, asked))
    assert (verdict, "1 of 2 nodes fits" in text) == ("allow", True)
    (tmp_path / "taken").mkdir()
    taken = claim(node="dra", devices=["gpu-0"])
    verdict, text = answer(review(tmp_path / "taken", template, asked, more=(taken,)))
    assert verdict == "wait"
    assert "once other pods leave" in text


TOGETHER = {"kai.scheduler/batch-min-member": "2"}
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]


def bare_gang(cpu: int) -> list[dict[str, Any]]:
    asked = {"pod-group-name": "g", **TOGETHER}
    return [pod(name=f"g-{at}", cpu=cpu, annotations=asked, resourceClaims=CLAIMS) for at in range(2)]


def job_gang(cpu: int) -> list[dict[str, Any]]:
    one = template(cpu=cpu, numa=None, resourceClaims=CLAIMS)
    spec = {"parallelism": 2, "completions": 2, "template": one}
    metadata = {"namespace": "default"}
    asked = {**TOGETHER, "scheduling.koordinator.sh/numa-topology-spec": SINGLE}
    return [workload(kind="Job", name="g", spec=spec, annotations=asked, metadata=metadata)]


gangs = pytest.mark.parametrize("gang", [bare_gang, job_gang])


# far [4 16]  gpu-0, gpu-1 near NUMA node 0      near [4 16]  gpu-0, gpu-1 near NUMA node 1      [free CPUs]
def on(folder: Path, *files: dict[str, Any], near: int = 0) -> tuple[str, str]:
    """The answer in this cluster. near: how many devices of node `near` are there; 0: there is no such node."""
    (folder / "cluster").mkdir()
    (folder / "files").mkdir()
    nodes = {"far": (0, 0), **({"near": (1,) * near} if near else {})}
    objects = [
        each
        for name, zones in nodes.items()
        for each in (node(name=name), nrt(node=name, free=(4, 16)), resource_slice(name, gpus(*zones)))
    ]
    cluster = written(folder / "cluster", *objects, device_class(), claim_template())
    return answer(run_review("-f", written(folder / "files", *files), "-o", "json", cluster=cluster))


@gangs
def test_a_gang_whose_devices_are_near_other_numa_nodes_waits(gang: Any, tmp_path: Path) -> None:
    verdict, text = on(tmp_path, *gang(8))
    assert verdict == "wait"
    assert text.partition(": ")[2] == (
        "there is room, but for g-0 no free devices on the NUMA nodes that its kubelet takes for CPUs and memory: "
        "far takes NUMA 1, devices are free on NUMA 0"
    )


@gangs
def test_a_gang_goes_where_its_devices_are_near(gang: Any, tmp_path: Path) -> None:
    assert on(tmp_path, *gang(8), near=2)[0] == "allow"


@gangs
def test_each_member_of_a_gang_needs_a_device_of_its_own(gang: Any, tmp_path: Path) -> None:
    verdict, text = on(tmp_path, *gang(8), near=1)
    assert (verdict, "no free devices" in text) == ("wait", True)


@gangs
def test_a_gang_with_too_few_devices_waits_for_them(gang: Any, tmp_path: Path) -> None:
    verdict, text = on(tmp_path, claim("held", node="far", devices=["gpu-0"]), *gang(2))
    assert (verdict, "devices of class gpu.example.com" in text) == ("wait", True)


def test_devices_of_a_device_plugin_are_not_called_unaligned(tmp_path: Path) -> None:
    verdict, text = answer(review(tmp_path, pod(devices={GPU: 1}, nodeSelector={"kubernetes.io/hostname": "plugin"})))
    assert (verdict, "best plugin" in text, "not aligned" in text) == ("allow", True, False)
