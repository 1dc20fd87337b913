"""Real kubelets of every kind in one cluster, beside node-feature-discovery: no pod is rejected twice for one reason.

1. A kubelet that gives whole cores only says so when it rejects a pod: after that its namespace knows.
2. Default kubelets beside static and strict ones, with every pod managed: what can run runs, and none is rejected.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import NUMA, SPEC, Pods, is_gated, wait_until_known
from tests.cluster.kubelets import SimulatedMachine
from tests.cluster.nodes import NODES
from tests.cluster.real_kubelets import ImpossibleError, RealKubelets, real_kubelets, require_possible
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from tests.neighbours.catalogue import NFD, Neighbour
from tests.neighbours.node_feature_discovery import nfd_topology_updater
from tests.unit.cli.conftest import run_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles

GPU = "example.com/gpu"
WHOLE_CORES = {"full-pcpus-only": "true"}
# cores ── NUMA 0 [6]  NUMA 1 [8]    two threads a core, whole cores only      [free cpus]
# plain ── NUMA 0 [6]  NUMA 1 [8]
LEARNING = (
    SimulatedMachine("cores", cpus=8, threads_per_core=2, reserved_cpus="0-1", cpu_options=WHOLE_CORES),
    SimulatedMachine("plain", cpus=8, reserved_cpus="0-1"),
)
# Each ── NUMA 0 [7]  NUMA 1 [8]
MIXED = (
    SimulatedMachine(
        "default",
        cpus=8,
        reserved_cpus="0",
        policy="none",
        cpu_manager="none",
        memory_manager="None",
        devices={GPU: (1, 1)},
    ),
    SimulatedMachine("static", cpus=8, reserved_cpus="0", policy="none"),
    SimulatedMachine("best-effort", cpus=8, reserved_cpus="0", policy="best-effort"),
    SimulatedMachine("restricted", cpus=8, reserved_cpus="0", policy="restricted", devices={GPU: (1, 0)}),
    SimulatedMachine("container", cpus=8, reserved_cpus="0", devices={GPU: (0, 1)}),
    SimulatedMachine("pod", cpus=8, reserved_cpus="0", scope="pod"),
)


class MixedCluster:
    """The running machines, and the pods of a namespace."""

    def __init__(self, pods: Pods, fleet: RealKubelets, webhook: LocalWebhook) -> None:
        self.pods = pods
        self.fleet = fleet
        self.webhook = webhook
        self.plane = pods.plane

    def with_status(self, phase: str) -> dict[str, str]:
        """Pod -> node, of the pods in this phase."""
        found = self.pods.all().items()
        return {name: raw["spec"].get("nodeName", "") for name, raw in found if raw["status"].get("phase") == phase}

    def runs(self, name: str) -> str:
        """Wait until the pod runs, and return its node."""
        self.plane.wait_for(f"{name} to run", lambda: name in self.with_status("Running") or self._failed(name))
        return self.with_status("Running")[name]

    def _failed(self, name: str) -> bool:
        assert name not in self.with_status("Failed"), self.pods.get(name)["status"]
        return False


@pytest.fixture
def cluster(
    control_plane: ControlPlane,
    pods: Pods,
    built: Callable[[Neighbour], NeighbourFiles],
    request: pytest.FixtureRequest,
) -> Iterator[MixedCluster]:
    """The machines and the `manage` of the test's parameter."""
    machines: Sequence[SimulatedMachine]
    machines, manage = request.param
    try:
        require_possible(len(machines))
    except ImpossibleError as error:
        pytest.skip(str(error))
    with local_webhook(control_plane, values={"settings": {**QUICK_LEASE, "manage": manage}}) as webhook:
        wait_until_known(pods, 0)
        with (
            real_kubelets(control_plane, machines) as fleet,
            nfd_topology_updater(control_plane, built(NFD), machines, fleet.state),
        ):
            wait_until_known(pods, len(machines))
            yield MixedCluster(pods, fleet, webhook)
            control_plane.delete_namespace(pods.namespace)  # pods go before their machines


def replica_set(name: str, replicas: int, cpu: int, init: int = 0) -> dict[str, Any]:
    limits = {"cpu": str(cpu), "memory": "64Mi"}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
    }
    if init:
        resources = {"limits": {**limits, "cpu": str(init)}}
        spec["initContainers"] = [{"name": "init", "image": "none", "resources": resources}]
    template = {"metadata": {"labels": {"app": name}, "annotations": {SPEC: json.dumps(SINGLE)}}, "spec": spec}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


SINGLE = {"numaTopologyPolicy": "SingleNUMANode"}
SETS = "/apis/apps/v1/namespaces/{}/replicasets"


@pytest.mark.neighbour("nfd")
@pytest.mark.parametrize("cluster", [(LEARNING, "Annotated")], indirect=True, ids=["learning"])
def test_a_kubelet_that_gives_whole_cores_is_learned_from_few_rejections_until_it_restarts(
    cluster: MixedCluster,
) -> None:
    pods, plane = cluster.pods, cluster.plane
    # Six pods of 3 CPUs: the kubelet of `cores` takes none of them, and `plain` takes four.
    plane.api.create(SETS.format(pods.namespace), replica_set("three", 6, 3))
    plane.wait_for("four to run", lambda: len(cluster.with_status("Running")) == 4)
    plane.wait_for("two to wait", lambda: len(gated(cluster)) == 2)
    assert set(cluster.with_status("Running").values()) == {"plain"}
    rejected = cluster.with_status("Failed")
    # Those that were placed before the first was rejected: `cores` has room for four.
    assert 1 <= len(rejected) <= 4
    assert set(rejected.values()) == {"cores"}
    assert {pods.get(name)["status"]["reason"] for name in rejected} == {"SMTAlignmentError"}
    for name in gated(cluster):
        pods.wait_until_says(name, "\n1 node could take it once other pods leave\n")
        pods.wait_until_says(name, "1 CPUs are no multiple of the threads per core")
    (learned,) = options(cluster, "cores")
    assert (learned["source"], learned["namespaces"]) == ("Learned", [pods.namespace])
    assert learned["options"] == {"full-pcpus-only": "true", "threads-per-core": "2"}
    assert "SMTAlignmentError at " in learned["text"]
    audit = run_command("audit", "--output=json", f"--kubeconfig={plane.kubeconfig}").json
    assert [one["node"] for one in audit["nodes"]["kubeletOptions"]] == ["cores"]
    assert any("cores (full-pcpus-only=true,threads-per-core=2)" in step for step in audit["actions"])

    # What is learned is modelled: 4 CPUs are whole cores, and an init container of 8 beside an app of 8 needs 16 free.
    plane.api.create(SETS.format(pods.namespace), replica_set("four", 1, 4))
    (four,) = plane.wait_for("a pod of 4 CPUs to run", lambda: running(cluster, "four"))
    assert pods.bound()[four] == "cores"
    plane.api.create(SETS.format(pods.namespace), replica_set("init", 1, 8, init=8))
    (init,) = [name for name in pods.all() if name.startswith("init-")]
    pods.wait_until_told(init, "WaitingForPlacement")
    pods.delete(four)
    plane.api.delete(SETS.format(pods.namespace) + "/four")
    plane.api.patch(SETS.format(pods.namespace) + "/three", {"spec": {"replicas": 0}})
    plane.wait_for("the pod of 8 CPUs to run", lambda: running(cluster, "init"))
    assert pods.bound()[init] == "plain"
    assert set(cluster.with_status("Failed")) <= set(rejected)

    # Its kubelet starts again without the option, after its node was not ready.
    before = pods.all().keys()
    restart_without_options(cluster, "cores")
    plane.wait_for("it to be forgotten", lambda: options(cluster, "cores") == [])
    plane.api.create(SETS.format(pods.namespace), replica_set("again", 1, 3))
    plane.wait_for("a pod of 3 CPUs to run there", lambda: running(cluster, "again"))
    (again,) = [name for name in pods.all().keys() - before if name.startswith("again-")]
    assert pods.bound()[again] == "cores"


def gated(cluster: MixedCluster) -> list[str]:
    return [name for name, raw in cluster.pods.all().items() if is_gated(raw)]


def running(cluster: MixedCluster, of: str) -> list[str]:
    return [name for name in cluster.with_status("Running") if name.startswith(f"{of}-")]


def options(cluster: MixedCluster, node: str) -> list[dict[str, Any]]:
    done = run_command("nodes", node, "--output=json", f"--kubeconfig={cluster.plane.kubeconfig}")
    found: list[dict[str, Any]] = done.json["node"]["kubeletOptions"]
    return found


def restart_without_options(cluster: MixedCluster, node: str) -> None:
    """An operator drains the node, changes its kubelet's configuration and starts it again."""
    plane, kubelet = cluster.plane, cluster.fleet.process(node)
    kubelet.kill()
    # As the node-lifecycle-controller does, which the test bed has not.
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    plane.api.request(
        "PATCH",
        f"{NODES}/{node}/status",
        {"status": {"conditions": [unknown]}},
        "application/strategic-merge-patch+json",
    )
    folder = cluster.fleet.state / node
    config = json.loads((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(json.dumps({**config, "cpuManagerPolicyOptions": {}}))
    for name in ("cpu_manager_state", "memory_manager_state"):
        (folder / name).unlink(missing_ok=True)
    cluster.fleet.restart(f"kubelet-{node}")
    plane.wait_for(f"{node} ready", cluster.fleet.ready)


def amounts(cpu: str, memory: str = "64Mi", gpus: int = 0) -> dict[str, str]:
    return {"cpu": cpu, "memory": memory, **({GPU: str(gpus)} if gpus else {})}


def of_class(qos: str, cpu: str, gpus: int) -> dict[str, Any]:
    """The resources of a container that make its pod of this QoS class."""
    devices = {"limits": {GPU: str(gpus)}} if gpus else {}
    match qos:
        case "Guaranteed":
            return {"limits": amounts(cpu, gpus=gpus)}
        case "Burstable":
            return {"requests": amounts(cpu), **devices}
    return devices


def workload() -> Iterator[dict[str, Any]]:
    """Pods of each QoS class with and without a policy, a device, an init container; some run on."""
    policies = ("", "SingleNUMANode", "Restricted", "BestEffort")
    shapes = product(("Guaranteed", "Burstable", "BestEffort"), policies, ("1", "3", "1500m"), (0, 1))
    for number, (qos, policy, cpu, gpus) in enumerate(shapes):
        resources = of_class(qos, cpu, gpus)
        spec: dict[str, Any] = {
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        }
        if number % 5 == 0:
            spec["initContainers"] = [{"name": "init", "image": "none", "resources": of_class(qos, cpu, 0)}]
        annotations = {"example.com/run-seconds": "2"}
        if policy:
            annotations[SPEC] = json.dumps({"numaTopologyPolicy": policy})
        yield {"metadata": {"name": f"p{number:02}-{qos.lower()}", "annotations": annotations}, "spec": spec}


@pytest.mark.neighbour("nfd")
@pytest.mark.parametrize("cluster", [(MIXED, "All")], indirect=True, ids=["mixed"])
def test_on_default_static_and_strict_kubelets_every_pod_runs_and_none_is_rejected(cluster: MixedCluster) -> None:
    pods, plane = cluster.pods, cluster.plane
    daemon = {
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}]},
            },
        },
    }
    plane.api.create(f"/apis/apps/v1/namespaces/{pods.namespace}/daemonsets", daemon)
    plane.wait_for("a daemon on each machine", lambda: set(cluster.with_status("Running").values()) == set(machines()))
    created = list(workload())
    plane.api.in_parallel(partial(pods.create, raw) for raw in created)
    names = {raw["metadata"]["name"] for raw in created}

    def all_ran() -> bool:
        assert cluster.with_status("Failed") == {}
        return names <= cluster.with_status("Succeeded").keys()

    plane.wait_for("all to have run", all_ran, seconds=300.0)
    given = {each["pod"].partition("/")[2]: each["containers"] for each in cluster.fleet.admitted()}
    for name in names:
        raw = pods.get(name)
        node, policy = raw["spec"]["nodeName"], json.loads(raw["metadata"]["annotations"].get(SPEC, "{}"))
        allocation = json.loads(raw["metadata"]["annotations"].get(NUMA, "{}")).get("numaNodeResources", [])
        cpus = {
            str(one["node"]): int(one["resources"]["cpu"])
            for one in allocation
            if one["resources"].get("cpu", "m")[-1] != "m"
        }
        (got,) = (one["cpusPerNuma"] for one in given[name] if one["name"] == "main")
        if cpus and got:
            assert cpus == got, (name, node, allocation)
        if policy == SINGLE and node in {"container", "pod"}:
            assert len(got) <= 1, (name, node)
        assert policy != SINGLE or node not in {"best-effort", "restricted"}


def machines() -> list[str]:
    return [machine.name for machine in MIXED]
