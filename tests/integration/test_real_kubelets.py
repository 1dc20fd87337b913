"""Real kubelets: they register, admit, reject, restart and free as themselves, and leave nothing on the host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.devices import DRIVER, claim_template, device_class, gpus
from tests.cluster.kubelets import RUN_SECONDS, SLICES, SimulatedMachine, cpu_list
from tests.cluster.real_kubelets import ImpossibleError, RealKubelets, namespaces, real_kubelets, require_possible
from tests.integration.hosts import host_state, marked, running, running_kubelets
from webhook.formats.kubernetes.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.control_plane import ControlPlane

GPU = "example.com/gpu"

# r0 [8 8] cpus, one of them reserved, a GPU near the second NUMA node
# r1 the same with whole cores only
# r2 [8 8] cpus, one of them reserved, policy none
# r0 has one more GPU near each NUMA node, which a DRA driver publishes.
MACHINES = (
    SimulatedMachine(
        "r0",
        cpus=8,
        devices={GPU: (0, 1)},
        slices={DRIVER: (1, 1)},
        reserved_cpus="0",
        labels={"example.com/rack": "r1"},
    ),
    SimulatedMachine("r1", cpus=8, threads_per_core=2, reserved_cpus="0-1", cpu_options={"full-pcpus-only": "true"}),
    SimulatedMachine("r2", cpus=8, policy="none"),
)


@pytest.fixture(scope="module")
def possible() -> None:
    try:
        require_possible(len(MACHINES))
    except ImpossibleError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def fleet(possible: None, control_plane: ControlPlane) -> Iterator[RealKubelets]:
    with real_kubelets(control_plane, MACHINES) as running:
        yield running


def pod(name: str, cpu: str, *, node: str = "r0", init: str = "", **amounts: str) -> dict[str, Any]:
    """A Guaranteed pod that is bound already."""
    limits = {"cpu": cpu, "memory": "1Gi", **amounts}
    spec: dict[str, Any] = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
    }
    if init:
        resources = {"limits": {"cpu": init, "memory": "1Gi"}}
        spec["initContainers"] = [{"name": "init", "image": "none", "resources": resources}]
    return {"metadata": {"name": name}, "spec": spec}


class Pods:
    """The pods of a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def run(self, raw: dict[str, Any], phase: str = "Running") -> dict[str, Any]:
        """Create a pod; returns it in this phase."""
        self._plane.api.create(self.path, raw)
        return self.reached(raw["metadata"]["name"], phase)

    def reached(self, name: str, phase: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def is_decided() -> bool:
            found.update(self._plane.api.get(f"{self.path}/{name}"))
            return found["status"]["phase"] in {phase, "Failed", "Succeeded"}

        self._plane.wait_for(f"{name} {phase}", is_decided)
        assert found["status"]["phase"] == phase, found["status"]
        return found

    def decided(self, name: str) -> dict[str, Any]:
        """The status of a pod that its kubelet has started or rejected."""
        found: dict[str, Any] = {}

        def is_decided() -> bool:
            found.update(self._plane.api.get(f"{self.path}/{name}")["status"])
            return bool(found["phase"] != "Pending")

        self._plane.wait_for(f"{name} started or rejected", is_decided)
        return found

    def delete(self, *names: str) -> None:
        """Ask the kubelets to end these pods, and wait until they are gone."""
        for name in names:
            self._plane.api.delete(f"{self.path}/{name}")
        gone = set(names)
        self._plane.wait_for(f"{names} gone", lambda: not gone & self._names())

    def _names(self) -> set[str]:
        return {each["metadata"]["name"] for each in self._plane.api.get(self.path)["items"]}


@pytest.fixture
def pods(fleet: RealKubelets, control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


def test_nodes_are_the_described_machines(fleet: RealKubelets, control_plane: ControlPlane) -> None:
    raw = control_plane.api.get("/api/v1/nodes/r0")
    node = Node.from_object(raw)
    assert node.ready
    assert (node.allocatable["cpu"], node.allocatable[GPU]) == (15_000, 1)
    assert node.allocatable["memory"] == 128 * 2**30
    assert node.labels["example.com/rack"] == "r1"
    assert raw["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("node-runtime://")
    assert fleet.cpu_manager_state("r0")["defaultCpuSet"] == "0-15"


def test_a_kubelet_aligns_rejects_and_frees(fleet: RealKubelets, pods: Pods) -> None:
    first = pods.run(pod("first", "5", **{GPU: "1"}))
    second = pods.run(pod("second", "5"))
    rejected = pods.run(pod("third", "5"), "Failed")["status"]
    assert rejected["reason"] == "TopologyAffinityError"
    assert rejected["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
    got = {pod["uid"]: pod["containers"][0] for pod in fleet.admitted()}
    uids = [each["metadata"]["uid"] for each in (first, second)]
    assert [got[uid]["cpusPerNuma"] for uid in uids] == [{"1": 5}, {"0": 5}]
    assert [got[uid]["devices"] for uid in uids] == [{GPU: {"1": 1}}, {}]
    assert [got[uid]["memory"][0]["numaAffinity"] for uid in uids] == [[1], [0]]
    entries = fleet.cpu_manager_state("r0")["entries"]
    assert {uid: len(cpu_list(entries[uid]["main"])) for uid in entries} == dict.fromkeys(uids, 5)
    pods.delete("first", "third")
    pods.run(pod("fourth", "8"))


def test_a_kubelet_that_gives_whole_cores_only_rejects_parts_of_them(fleet: RealKubelets, pods: Pods) -> None:
    assert pods.run(pod("half", "3", node="r1"), "Failed")["status"]["reason"] == "SMTAlignmentError"
    pods.run(pod("whole", "4", node="r1"))


def test_an_init_container_ends_and_leaves_its_cpus_to_the_next(fleet: RealKubelets, pods: Pods) -> None:
    uid = pods.run(pod("a", "3", init="7"))["metadata"]["uid"]
    (got,) = (pod["containers"] for pod in fleet.admitted() if pod["uid"] == uid)
    assert [(each["name"], each["cpusPerNuma"]) for each in got] == [("init", {"0": 7}), ("main", {"0": 3})]


def test_checkpoints_keep_what_ended_until_the_next_pod_comes(
    fleet: RealKubelets, control_plane: ControlPlane, pods: Pods
) -> None:
    """As those of a simulated kubelet (test_kubelets.py)."""
    pods.run(pod("any", "1"))  # with which the memory manager forgets the pods of other tests
    pods.delete("any")
    uid = pods.run(pod("a", "5"))["metadata"]["uid"]
    pods.delete("a")
    control_plane.wait_for("the CPU manager's look", lambda: not fleet.cpu_manager_state("r0").get("entries"))
    assert list(fleet.memory_manager_state("r0")["entries"]) == [uid]
    next_uid = pods.run(pod("b", "5"))["metadata"]["uid"]
    for state in (fleet.cpu_manager_state("r0"), fleet.memory_manager_state("r0")):
        assert list(state["entries"]) == [next_uid]


def test_a_rejected_pod_holds_its_cpus_until_the_next_one_comes(fleet: RealKubelets, pods: Pods) -> None:
    """As in a simulated kubelet (test_replay.py): its CPU manager gives before its memory manager fails."""
    large = pod("large", "2", node="r2")
    large["spec"]["containers"][0]["resources"]["limits"]["memory"] = "200Gi"
    status = pods.run(large, "Failed")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "[memorymanager]" in status["message"]
    uid = pods.run(pod("next", "8", node="r2"))["metadata"]["uid"]
    assert list(fleet.cpu_manager_state("r2")["entries"]) == [uid]


def test_a_kubelet_that_starts_again_admits_pods_before_it_forgets_those_that_ended(
    fleet: RealKubelets, control_plane: ControlPlane, pods: Pods
) -> None:
    """Nothing shows that it will: docs/unknowns.md. Its memory manager forgets only when it is asked for hints."""

    def large(name: str) -> dict[str, Any]:
        raw = pod(name, "1")
        raw["spec"]["containers"][0]["resources"]["limits"]["memory"] = "60Gi"  # of 64Gi in each NUMA node
        return raw

    pods.run(large("ended"))
    pods.delete("ended")
    fleet.process("r0").kill()
    for name in ("a", "b"):
        control_plane.api.create(pods.path, large(name))
    fleet.restart("kubelet-r0")
    # Both were created within a second: the kubelet may take either first.
    running, failed = sorted(map(pods.decided, "ab"), key=lambda status: str(status["phase"]), reverse=True)
    assert (running["phase"], failed["phase"]) == ("Running", "Failed")
    assert "[memorymanager]" in failed["message"]
    pods.run(large("c"))


def test_a_driver_prepares_the_claim_of_a_pod_and_publishes_its_devices_again_after_the_kubelet_deleted_them(
    fleet: RealKubelets, control_plane: ControlPlane, pods: Pods, namespace: str
) -> None:
    api, root = control_plane.api, "/apis/resource.k8s.io/v1"
    api.create(f"{root}/deviceclasses", device_class())
    try:
        api.create(f"{root}/namespaces/{namespace}/resourceclaimtemplates", claim_template(namespace=namespace))
        raw = pod("a", "2")
        del raw["spec"]["nodeName"]  # kube-scheduler allocates the claim
        raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        raw["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        uid = pods.run(raw)["metadata"]["uid"]
        (prepared,) = fleet.prepared().values()
        assert (prepared["node"], prepared["pods"], len(prepared["devices"])) == ("r0", [uid], 1)

        before = {each["metadata"]["uid"] for each in api.get(SLICES)["items"]}
        fleet.process("r0").kill()
        fleet.restart("kubelet-r0")  # it deletes the ResourceSlices of its node when it starts
        control_plane.wait_for(
            "a new ResourceSlice", lambda: {each["metadata"]["uid"] for each in api.get(SLICES)["items"]} - before
        )
        assert [each["spec"]["devices"] for each in api.get(SLICES)["items"]] == [gpus(0, 1)]
        pods.delete("a")
        control_plane.wait_for("the claim unprepared", lambda: not fleet.prepared())
    finally:
        api.delete(f"{root}/deviceclasses/{DRIVER}")


def test_a_pod_with_a_run_time_succeeds(pods: Pods) -> None:
    short = pod("short", "1")
    short["metadata"]["annotations"] = {RUN_SECONDS: "0.5"}
    short["spec"]["restartPolicy"] = "Never"
    pods.run(short, "Succeeded")


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL])
def test_pods_keep_what_they_have_when_their_kubelet_is_started_again(
    number: signal.Signals, fleet: RealKubelets, pods: Pods
) -> None:
    uid = pods.run(pod("a", "5"))["metadata"]["uid"]
    before = fleet.cpu_manager_state("r0")["entries"][uid]
    os.kill(fleet.process("r0").pid, number)
    fleet.process("r0").wait(60)
    fleet.restart("kubelet-r0")
    pods.run(pod("b", "8"))
    assert pods.run(pod("c", "5"), "Failed")["status"]["reason"] == "TopologyAffinityError"
    assert fleet.cpu_manager_state("r0")["entries"][uid] == before
    assert sum(event["event"] == "created" and event["uid"] == uid for event in fleet.journal()) == 1


@pytest.mark.usefixtures("possible")
def test_a_killed_run_leaves_no_program_no_mount_and_no_changed_tunable(
    programs: Mapping[str, Path], tmp_path: Path
) -> None:
    host = host_state(tmp_path)
    before = host()
    up = [sys.executable, "-m", "tests.cluster", "up", "--kubelets", "2", "--numa", "4", "--policy", "restricted"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(up, cwd=root, env=marked(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            kubectl = [str(programs["kubectl"]), f"--kubeconfig={line.partition('kubeconfig=')[2].strip()}"]
            told = subprocess.run([*kubectl, "get", "nodes", "-o", "json"], capture_output=True, text=True, check=True)
            nodes = {
                each["metadata"]["name"]: each["status"]["capacity"]["cpu"] for each in json.loads(told.stdout)["items"]
            }
            assert nodes == {"numa-0": "64", "numa-1": "64"}
            assert len(running_kubelets(tmp_path)) == 2
        finally:
            process.kill()
    deadline = time.monotonic() + 60
    while left := running(tmp_path):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert host() == before


def test_where_no_namespace_can_be_had_the_reason_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "unshare").write_text("#!/bin/sh\necho unshare failed: Operation not permitted >&2; exit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    namespaces.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
            with pytest.raises(
                ImpossibleError, match="user namespaces, or root: unshare failed: Operation not permitted"
            ):
                require_possible(1)
    finally:
        namespaces.cache_clear()


# A user namespace in which there may be no other, and of whose rights the program has none.
UNPRIVILEGED = """
echo 0 > /proc/sys/user/max_user_namespaces
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"""


def test_without_user_namespaces_and_root_the_tests_are_skipped_with_the_reason() -> None:
    test = f"{__file__}::{test_more_machines_than_the_host_can_have_are_refused_before_any_starts.__name__}"
    alone = ["unshare", "--user", "--map-root-user", "sh", "-ec", UNPRIVILEGED, "sh"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this test needs user namespaces, and the program setpriv")
    pytest_alone = [*alone, sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        pytest_alone, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300, check=False
    )
    assert "real kubelets need user namespaces, or root: unshare" in done.stdout, done.stdout + done.stderr
    assert "(/proc/sys/user/max_user_namespaces is 0)" in done.stdout
    assert "1 skipped" in done.stdout


@pytest.mark.usefixtures("possible")
def test_more_machines_than_the_host_can_have_are_refused_before_any_starts() -> None:
    with pytest.raises(ImpossibleError, match="max_user_instances allows"):
        require_possible(10**6)
