"""Devices are compared with the CPUs of the pod that they are reserved for."""

from __future__ import annotations

from typing import Any

from tests.builders.devices import DRIVER
from tests.cluster.kubelets import even_machine
from tests.proof.dra import alignments

# n0 ── NUMA 0 [gpu-0 gpu-1] ── NUMA 1 [gpu-2]
MACHINES = [even_machine("n0", slices={DRIVER: (2, 1)})]


def admitted(uid: str, *cpus: dict[str, int]) -> dict[str, Any]:
    containers = [{"name": f"c{number}", "cpusPerNuma": each} for number, each in enumerate(cpus)]
    return {"node": "n0", "pod": f"default/{uid}", "uid": uid, "containers": containers}


def devices(*names: str) -> set[tuple[str, str, str]]:
    return {("n0", DRIVER, name) for name in names}


def test_a_pod_is_apart_if_a_device_is_on_a_numa_node_without_its_cpus() -> None:
    owned = {
        "near": devices("gpu-0", "gpu-1"),
        "far": devices("gpu-2"),
        "torn": devices("gpu-1", "gpu-2"),
        "wide": devices("gpu-0"),
    }
    admissions = [
        admitted("near", {"0": 4}),
        admitted("far", {"0": 4}),
        admitted("torn", {"0": 4}),
        admitted("wide", {"0": 4}, {"1": 4}),
    ]
    found = {each.pod.removeprefix("default/"): each.apart for each in alignments(owned, admissions, MACHINES)}
    assert found == {"near": False, "far": True, "torn": True, "wide": False}


def test_pods_without_devices_or_exclusive_cpus_are_not_compared() -> None:
    admissions = [admitted("none", {"0": 4}), admitted("shared", {}), admitted("empty")]
    assert alignments({"shared": devices("gpu-2"), "empty": devices("gpu-2")}, admissions, MACHINES) == []
