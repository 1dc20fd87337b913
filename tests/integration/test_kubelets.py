"""Simulated kubelets on the real control plane: they register, admit, reject, run, end and free, and publish it all."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.kubelets import RUN_SECONDS, Kubelets, SimulatedMachine, kubelets
from tests.cluster.nodes import TOPOLOGIES
from tests.cluster.process import ProcessEndedError
from tests.fingerprints import pod_fingerprint
from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import FingerprintMethod, NodeTopology, Publisher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

GPU = "example.com/gpu"

# k0 [8 8] cpus, one of them reserved, a GPU near the second NUMA node
K0 = SimulatedMachine("k0", cpus=8, devices={GPU: (0, 1)}, reserved_cpus="0", labels={"example.com/rack": "r1"})


@pytest.fixture
def k0(control_plane: ControlPlane, namespace: str) -> Iterator[Kubelets]:
    with kubelets(control_plane, [K0]) as running:
        yield running
        control_plane.delete_namespace(namespace)


def pod(name: str, cpu: str, *, node: str = "k0", **metadata: Any) -> dict[str, Any]:
    """A Guaranteed pod that is bound already."""
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}}
    return {"metadata": {"name": name, **metadata}, "spec": {"nodeName": node, "containers": [container]}}


class Pods:
    """The pods of a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, raw: dict[str, Any]) -> None:
        self._plane.api.create(self._path, raw)

    def delete(self, name: str) -> None:
        self._plane.api.delete(f"{self._path}/{name}")

    def wait_for_phase(self, name: str, phase: str) -> dict[str, Any]:
        status: dict[str, Any] = {}

        def reached() -> bool:
            status.update(self._plane.api.get(f"{self._path}/{name}")["status"])
            return bool(status["phase"] == phase)

        self._plane.wait_for(f"{name} {phase}", reached)
        return status


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


def topology(plane: ControlPlane) -> NodeTopology:
    return NodeTopology.from_object(plane.api.get(f"{TOPOLOGIES}/k0"))


def free_cpus(plane: ControlPlane) -> list[int]:
    return [zone.resources["cpu"].available // 1000 for zone in topology(plane).zones]


def wait_for_free(plane: ControlPlane, *cpus: int) -> None:
    plane.wait_for(f"{cpus} free CPUs", lambda: free_cpus(plane) == list(cpus))


@pytest.mark.usefixtures("k0")
def test_a_machine_registers_its_node_and_publishes_its_topology(control_plane: ControlPlane) -> None:
    node = Node.from_object(control_plane.api.get("/api/v1/nodes/k0"))
    assert node.ready
    assert not node.taints
    assert node.allocatable["cpu"] == 15_000
    assert node.allocatable[GPU] == 1
    assert node.labels["example.com/rack"] == "r1"
    published = topology(control_plane)
    assert published.problems == ()
    assert published.policy.kubelet == "single-numa-node"
    # resource-topology-exporter leaves the deprecated field empty
    assert "topologyPolicies" not in control_plane.api.get(f"{TOPOLOGIES}/k0")
    assert published.fingerprint == pod_fingerprint([])
    assert [zone.resources["cpu"].available for zone in published.zones] == [7000, 8000]
    assert [GPU in zone.resources for zone in published.zones] == [False, True]


def test_an_admitted_pod_runs_and_its_numa_node_is_taken(control_plane: ControlPlane, k0: Kubelets, pods: Pods) -> None:
    pods.create(pod("a", "5"))
    status = pods.wait_for_phase("a", "Running")
    assert {"Ready", "ContainersReady"} <= {one["type"] for one in status["conditions"] if one["status"] == "True"}
    assert status["containerStatuses"][0]["ready"]
    (admitted,) = k0.events("admitted")
    assert admitted["containers"][0]["cpusPerNuma"] == {"0": 5}
    wait_for_free(control_plane, 2, 8)


def test_what_fits_in_sum_but_in_no_numa_node_fails_as_with_a_kubelet(
    control_plane: ControlPlane, namespace: str, k0: Kubelets, pods: Pods
) -> None:
    for name in ("a", "b"):
        pods.create(pod(name, "5"))
        pods.wait_for_phase(name, "Running")
    pods.create(pod("c", "5"))
    status = pods.wait_for_phase("c", "Failed")
    assert status["reason"] == "TopologyAffinityError"
    assert status["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
    assert [event["pod"] for event in k0.events("rejected")] == [f"{namespace}/c"]
    control_plane.wait_for(
        "the Event",
        lambda: any(
            event["reason"] == "TopologyAffinityError" and event["involvedObject"]["name"] == "c"
            for event in control_plane.api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
        ),
    )
    wait_for_free(control_plane, 2, 3)


@pytest.mark.usefixtures("k0")
def test_what_the_node_has_no_room_for_fails_as_with_a_kubelet(pods: Pods) -> None:
    # Shared CPUs have no NUMA node, so only the node as a whole can be too small.
    pods.create(pod("a", "14500m"))
    pods.wait_for_phase("a", "Running")
    pods.create(pod("b", "600m"))
    status = pods.wait_for_phase("b", "Failed")
    assert status["reason"] == "OutOfcpu"
    assert "requested: 600, used: 14500, capacity: 15000" in status["message"]


@pytest.mark.usefixtures("k0")
def test_a_deleted_pod_is_gone_at_once_and_leaves_its_cpus(control_plane: ControlPlane, pods: Pods) -> None:
    pods.create(pod("a", "5"))
    pods.wait_for_phase("a", "Running")
    wait_for_free(control_plane, 2, 8)
    pods.delete("a")  # with 30 seconds of grace
    wait_for_free(control_plane, 7, 8)
    pods.create(pod("a", "7"))
    pods.wait_for_phase("a", "Running")


@pytest.mark.usefixtures("k0")
def test_a_pod_with_a_run_time_succeeds_and_leaves_its_cpus(control_plane: ControlPlane, pods: Pods) -> None:
    pods.create(pod("a", "5", annotations={RUN_SECONDS: "0.5"}))
    status = pods.wait_for_phase("a", "Succeeded")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    wait_for_free(control_plane, 7, 8)


@pytest.mark.usefixtures("k0")
def test_the_fingerprint_is_of_the_pods_that_hold_numa_resources(
    control_plane: ControlPlane, namespace: str, pods: Pods
) -> None:
    pods.create(pod("a", "5"))
    burstable = pod("b", "1")
    burstable["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    pods.create(burstable)
    pods.wait_for_phase("b", "Running")
    wait_for_free(control_plane, 2, 8)
    published = topology(control_plane)
    assert published.fingerprint_method is FingerprintMethod.WITH_EXCLUSIVE_RESOURCES
    assert published.fingerprint == pod_fingerprint([(namespace, "a")])


@pytest.mark.parametrize(("publisher", "free"), [("nfd", [2, 8]), ("koordlet", [8, 8])])
def test_other_publishers_forms(
    control_plane: ControlPlane, namespace: str, pods: Pods, publisher: str, free: list[int]
) -> None:
    machine = SimulatedMachine("k0", cpus=8, devices={GPU: (0, 1)})
    with kubelets(control_plane, [machine], publisher=publisher):
        pods.create(pod("a", "5"))
        pods.wait_for_phase("a", "Running")
        wait_for_free(control_plane, *free)
        published = topology(control_plane)
        assert published.policy.kubelet == "single-numa-node"
        assert published.publisher is (Publisher.TOTAL if publisher == "koordlet" else Publisher.SUBTRACTS)
        assert published.fingerprint == (pod_fingerprint([(namespace, "a")]) if publisher == "nfd" else None)
        control_plane.delete_namespace(namespace)


def test_a_kubelet_that_gives_whole_cores_only_rejects_parts_of_them(
    control_plane: ControlPlane, namespace: str, pods: Pods, tmp_path: Path
) -> None:
    machine = SimulatedMachine("k0", cpus=8, threads_per_core=2, cpu_options={"full-pcpus-only": "true"})
    with kubelets(control_plane, [machine], state=tmp_path):
        pods.create(pod("half", "3"))
        assert pods.wait_for_phase("half", "Failed")["reason"] == "SMTAlignmentError"
        pods.create(pod("whole", "4"))
        pods.wait_for_phase("whole", "Running")
        checkpoint = json.loads((tmp_path / "k0" / "cpu_manager_state").read_text())
        assert (checkpoint["policyName"], checkpoint["defaultCpuSet"]) == ("static", "0-1,6-15")
        assert [*checkpoint["entries"].values()] == [{"main": "2-5"}]
        control_plane.delete_namespace(namespace)


def test_a_kubelet_with_a_static_cpu_manager_demands_a_reserved_cpu(control_plane: ControlPlane) -> None:
    with (
        pytest.raises(ProcessEndedError, match="k0: the static CPU manager demands a reserved CPU"),
        kubelets(control_plane, [SimulatedMachine("k0", reserved_cpus="")]),
    ):
        pass


def test_its_checkpoints_keep_what_ended_until_the_next_pod_comes(
    control_plane: ControlPlane, namespace: str, pods: Pods, tmp_path: Path
) -> None:
    def entries(name: str) -> int:
        return len(json.loads((tmp_path / "k0" / name).read_text()).get("entries") or ())

    with kubelets(control_plane, [K0], state=tmp_path):
        pods.create(pod("a", "5"))
        pods.wait_for_phase("a", "Running")
        pods.delete("a")
        wait_for_free(control_plane, 7, 8)
        # No other pod comes: the CPU manager looks every ten seconds, the memory manager never.
        control_plane.wait_for("the CPU manager's look", lambda: entries("cpu_manager_state") == 0)
        assert entries("memory_manager_state") == 1
        pods.create(pod("b", "5"))
        pods.wait_for_phase("b", "Running")
        assert (entries("cpu_manager_state"), entries("memory_manager_state")) == (1, 1)
        control_plane.delete_namespace(namespace)


def test_a_kubelet_without_cpu_manager_gives_no_cpus(
    control_plane: ControlPlane, namespace: str, pods: Pods, tmp_path: Path
) -> None:
    machine = SimulatedMachine("k0", cpus=8, cpu_manager="none", policy="none")
    with kubelets(control_plane, [machine], state=tmp_path):
        pods.create(pod("a", "3"))
        pods.wait_for_phase("a", "Running")
        checkpoint = json.loads((tmp_path / "k0" / "cpu_manager_state").read_text())
        assert (checkpoint["policyName"], "entries" in checkpoint) == ("none", False)
        control_plane.delete_namespace(namespace)


def test_the_topology_follows_a_change_after_the_lag(control_plane: ControlPlane, namespace: str, pods: Pods) -> None:
    with kubelets(control_plane, [K0], lag=4.0):
        pods.create(pod("a", "5"))
        status = pods.wait_for_phase("a", "Running")
        wait_for_free(control_plane, 2, 8)
        admitted = datetime.fromisoformat(status["containerStatuses"][0]["state"]["running"]["startedAt"])
        fields = control_plane.api.get(f"{TOPOLOGIES}/k0")["metadata"]["managedFields"]
        written = max(datetime.fromisoformat(manager["time"]) for manager in fields)
        assert written - admitted >= timedelta(seconds=1)  # the lag is two at least, and both are whole seconds
        control_plane.delete_namespace(namespace)


def test_nodes_and_topologies_are_gone_afterwards(control_plane: ControlPlane) -> None:
    with kubelets(control_plane, [K0]) as running:
        assert running.events("ready")[0]["nodes"] == 1
    assert running.events("summary")
    assert control_plane.kubectl("get", "nodes,noderesourcetopologies", "-o", "name") == ""
