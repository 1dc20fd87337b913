"""NodeResourceTopologies that another project's exporter writes drive placements.

    m-0 m-1      [2 NUMA nodes of 16 CPUs each, a pod takes 10]

Four pods fill both machines: each NUMA node has 6 CPUs left. A fifth fits the sum of a machine, but no NUMA node of it.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.gated import NUMA, Pods, pod, wait_until_known
from tests.cluster.kubelets import Kubelets, SimulatedMachine, even_machine, kubelets
from tests.cluster.nodes import TOPOLOGIES
from tests.cluster.racked import webhook
from tests.cluster.real_kubelets import ImpossibleError, real_kubelets, require_possible
from tests.fingerprints import pod_fingerprint
from tests.neighbours.catalogue import KOORDLET, NFD, RTE, Neighbour
from tests.neighbours.koordlet import koordlet
from tests.neighbours.node_feature_discovery import nfd_topology_updater
from tests.neighbours.resource_topology_exporter import READINESS_GATES, ExporterConfig, resource_topology_exporter
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.state.assumed.node_state import reported_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles
    from webhook.formats.koordinator.cpu_topology import NodeCPUs

__all__ = ["webhook"]  # a fixture

MACHINES = tuple(even_machine(f"m-{number}") for number in range(2))
NAMES = [f"p-{number}" for number in range(4)]
RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
ALIGNED = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container"}
EVERY_SECOND = ["--sleep-interval=1s"]
"""For what needs no more of the exporter than that it writes."""


@pytest.fixture
def state() -> Iterator[Path]:
    """A folder with a short path: that of a socket may have 107 bytes."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def topology(plane: ControlPlane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.api.get(f"{TOPOLOGIES}/{name}")
    return found


def attributes(raw: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in raw["attributes"]}


def free_cpus(raw: dict[str, Any]) -> dict[str, str]:
    """NUMA node -> its available CPUs."""
    return {
        zone["name"]: next(each["available"] for each in zone["resources"] if each["name"] == "cpu")
        for zone in raw["zones"]
    }


def nothing() -> None:
    """The exporter finds out by itself."""


def fill_both_machines(pods: Pods, tell: Callable[[], None] = nothing) -> None:
    """Create four pods, and wait until their NUMA nodes are certain and each NRT shows what they hold.

    tell: it tells the exporter that containers started or ended.
    """
    create_four(pods, pod, tell)
    for machine in MACHINES:
        wait_telling(pods, tell, "what they hold", partial(shows, pods.plane, machine.name, "6", "6"))


def create_four(pods: Pods, make: Callable[[str, int], dict[str, Any]], tell: Callable[[], None] = nothing) -> None:
    """Create four pods, and wait until each has a NUMA node of its own for certain."""
    for name in NAMES:
        pods.create(make(name, 10))
    pods.wait_until_bound(*NAMES)
    wait_telling(
        pods, tell, "certain allocations, after the exporter wrote", lambda: all(map(partial(allocated, pods), NAMES))
    )
    assert len({(node, tuple(numa)) for node, numa in map(pods.allocation, NAMES)}) == len(NAMES)


def free_a_waiting_pod(
    pods: Pods,
    running: Kubelets,
    tell: Callable[[], None] = nothing,
    make: Callable[[str, int], dict[str, Any]] = pod,
) -> None:
    """A fifth pod waits until one of the four is deleted, and gets its NUMA node."""
    plane = pods.plane
    pods.create(make("late", 10))
    plane.wait_for("it to wait", lambda: "late" in pods.gated())
    node, (numa,) = pods.allocation(NAMES[0])
    pods.delete(NAMES[0])
    wait_telling(pods, tell, "it to be bound", lambda: "late" in pods.bound())
    wait_telling(pods, tell, "its allocation", partial(allocated, pods, "late"))
    assert pods.allocation("late") == (node, [numa])
    plane.wait_for("it to run", lambda: pods.get("late")["status"]["phase"] == "Running")
    assert running.events("rejected") == []


@pytest.mark.neighbour("nfd")
def test_what_node_feature_discovery_writes_places_pods_and_frees_a_waiting_one(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles], state: Path
) -> None:
    wait_until_known(pods, 0)
    with (
        kubelets(control_plane, MACHINES, publisher="none", state=state) as running,
        nfd_topology_updater(control_plane, built(NFD), MACHINES, state),
    ):
        wait_until_known(pods, len(MACHINES))
        written = topology(control_plane, "m-0")
        assert free_cpus(written) == {"node-0": "16", "node-1": "16"}
        assert attributes(written) == ALIGNED

        fill_both_machines(pods)
        for machine in MACHINES:
            here = [(pods.namespace, name) for name, node in pods.bound().items() if node == machine.name]
            assert attributes(topology(control_plane, machine.name))["nodeTopologyPodsFingerprint"] == pod_fingerprint(
                here
            )
        free_a_waiting_pod(pods, running)
        control_plane.delete_namespace(pods.namespace)  # pods go before their machines


@pytest.mark.neighbour("nfd")
def test_real_kubelets_give_pods_what_was_predicted_from_what_node_feature_discovery_writes(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles]
) -> None:
    try:
        require_possible(len(MACHINES))
    except ImpossibleError as error:
        pytest.skip(str(error))
    wait_until_known(pods, 0)
    with (
        real_kubelets(control_plane, MACHINES) as running,
        nfd_topology_updater(control_plane, built(NFD), MACHINES, running.state),
    ):
        wait_until_known(pods, len(MACHINES))
        written = topology(control_plane, "m-0")
        assert free_cpus(written) == {"node-0": "16", "node-1": "16"}
        assert attributes(written) == ALIGNED

        def phases() -> dict[str, str]:
            return {name: raw["status"]["phase"] for name, raw in pods.all().items()}

        create_four(pods, pod)
        control_plane.wait_for("all to run", lambda: phases() == dict.fromkeys(NAMES, "Running"))
        given = {each["pod"].partition("/")[2]: each for each in running.admitted()}
        for name in NAMES:
            node, numa = pods.allocation(name)
            (container,) = given[name]["containers"]
            assert (given[name]["node"], container["cpusPerNuma"]) == (node, {str(numa[0]): 10})

        pods.create(pod("late", 10))
        control_plane.wait_for("it to wait", lambda: "late" in pods.gated())
        freed = pods.allocation(NAMES[0])
        pods.delete(NAMES[0])
        control_plane.wait_for("it to run", lambda: phases() == dict.fromkeys([*NAMES[1:], "late"], "Running"))
        assert pods.allocation("late") == freed
        control_plane.delete_namespace(pods.namespace)  # pods go before their machines


@pytest.mark.neighbour("rte")
@pytest.mark.parametrize("method", ["with-exclusive-resources", "all"])
def test_what_resource_topology_exporter_writes_places_pods_and_frees_a_waiting_one(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles], state: Path, method: str
) -> None:
    wait_until_known(pods, 0)
    config = ExporterConfig(flags=[f"--pods-fingerprint-method={method}"])
    with (
        kubelets(control_plane, MACHINES, publisher="none", state=state) as running,
        resource_topology_exporter(control_plane, built(RTE), MACHINES, state, config) as exporter,
    ):
        wait_until_known(pods, len(MACHINES))
        written = topology(control_plane, "m-0")
        assert free_cpus(written) == {"node-0": "16", "node-1": "16"}
        assert attributes(written).items() > {**ALIGNED, "nodeTopologyPodsFingerprintMethod": method}.items()
        control_plane.wait_for(
            "the readiness gates of its pod", lambda: exporter.pods.conditions("m-0").items() >= READINESS_GATES.items()
        )

        fill_both_machines(pods, exporter.tell)
        for machine in MACHINES:
            ours = {key for key in bound_pods(control_plane, machine.name) if key.startswith(f"{pods.namespace}/")}
            own = {f"default/{exporter.pods.names[machine.name]}"} if method == "all" else set()
            assert set(read_fingerprint(control_plane, machine.name) or ()) == ours | own
        free_a_waiting_pod(pods, running, exporter.tell)
        control_plane.delete_namespace(pods.namespace)  # pods go before their machines


@pytest.mark.neighbour("rte")
def test_memory_that_resource_topology_exporter_leaves_out_is_not_compared(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles], state: Path
) -> None:
    wait_until_known(pods, 0)
    config = ExporterConfig(flags=EVERY_SECOND, extra={"resourceExclude": {"*": ["memory"]}})
    with (
        kubelets(control_plane, MACHINES, publisher="none", state=state) as running,
        resource_topology_exporter(control_plane, built(RTE), MACHINES, state, config),
    ):
        wait_until_known(pods, len(MACHINES))
        fill_both_machines(pods)
        allocation = json.loads(pods.get(NAMES[0])["metadata"]["annotations"][NUMA])
        assert [entry["resources"] for entry in allocation["numaNodeResources"]] == [{"cpu": "10"}]
        free_a_waiting_pod(pods, running)
        control_plane.delete_namespace(pods.namespace)  # pods go before their machines


@pytest.mark.neighbour("rte")
def test_what_else_resource_topology_exporter_can_be_told_to_leave_out_is_noticed(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles], state: Path
) -> None:
    """CPUs: the log says so. Pods: no fingerprint covers them, so it is as if there were none."""
    wait_until_known(pods, 0)
    its_own = {"namespacePattern": "*", "namePattern": "resource-topology-*"}
    config = ExporterConfig(
        flags=[*EVERY_SECOND, "--pods-fingerprint-method=all"],
        extra={"resourceExclude": {"m-0": ["cpu"]}, "podExclude": [its_own]},
    )
    with (
        kubelets(control_plane, MACHINES, publisher="none", state=state),
        resource_topology_exporter(control_plane, built(RTE), MACHINES, state, config),
    ):
        wait_until_known(pods, len(MACHINES))
        without_cpus, whole = (
            NodeTopology.from_object(topology(control_plane, name)).problems for name in ("m-0", "m-1")
        )
        assert whole == ()
        assert "no NUMA node lists cpu" in without_cpus[0]
        pods.create(pod("p", cpu=10, nodeSelector={"kubernetes.io/hostname": "m-1"}))
        pods.wait_until_bound("p")
        control_plane.wait_for("what it holds", lambda: shows(control_plane, "m-1", "6", "16"))
        assert read_fingerprint(control_plane, "m-1") is None
        control_plane.delete_namespace(pods.namespace)  # pods go before their machines


def wait_telling(pods: Pods, tell: Callable[[], None], what: str, condition: Callable[[], bool]) -> None:
    """Wait, and tell the exporter again each time: it may have been told before the kubelet had acted."""

    def holds() -> bool:
        tell()
        return condition()

    pods.plane.wait_for(what, holds)


@pytest.mark.neighbour("koordlet")
def test_what_koordlet_writes_places_pods_on_whole_cores_and_frees_a_waiting_one(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles], state: Path
) -> None:
    """As Koordinator expects them, its kubelets neither bind nor align: it does, as the service says."""
    machines = [
        SimulatedMachine(each.name, threads_per_core=2, cpu_manager="none", policy="none", reserved_cpus="")
        for each in MACHINES
    ]
    wait_until_known(pods, 0)
    with (
        kubelets(control_plane, machines, publisher="none", state=state) as running,
        koordlet(control_plane, built(KOORDLET), machines, state),
    ):
        wait_until_cpus_known(pods, machines)
        written = NodeTopology.from_object(topology(control_plane, "m-0"))
        assert (written.policy.kubelet, written.publisher, written.problems) == ("none", Publisher.TOTAL, ())
        assert free_cpus(topology(control_plane, "m-0")) == {"node-0": "16", "node-1": "16"}

        create_four(pods, on_whole_cores)
        with pytest.raises(ApiError, match="no multiple of the threads per core"):
            pods.create(on_whole_cores("odd", 5))
        free_a_waiting_pod(pods, running, make=on_whole_cores)
        control_plane.delete_namespace(pods.namespace)  # pods go before their machines


@pytest.mark.neighbour("koordlet")
def test_what_koordlet_reports_of_a_kubelet_that_binds_is_read(
    control_plane: ControlPlane, pods: Pods, built: Callable[[Neighbour], NeighbourFiles], state: Path
) -> None:
    """The kubelets keep core 0 to themselves and give whole cores of two threads only."""
    options = {"full-pcpus-only": "true"}
    machines = [
        SimulatedMachine(each.name, threads_per_core=2, reserved_cpus="0-1", cpu_options=options) for each in MACHINES
    ]
    wait_until_known(pods, 0)
    with (
        kubelets(control_plane, machines, publisher="none", state=state) as running,
        koordlet(control_plane, built(KOORDLET), machines, state),
    ):
        cpus = wait_until_cpus_known(pods, machines)
        assert (cpus.topology.threads, cpus.full_cores_only, sorted(cpus.reserved)) == (2, True, [0, 1])
        written = NodeTopology.from_object(topology(control_plane, "m-0"))
        assert (written.policy.kubelet, written.problems) == ("single-numa-node", ())

        create_four(pods, pod)
        control_plane.wait_for("what they hold", lambda: given(pods).keys() == set(NAMES))
        for held in given(pods).values():
            assert list(cpus.topology.per_zone(held).values()) == [10]
            assert held == {each ^ 1 for each in held}
        with pytest.raises(ApiError, match="no multiple of the threads per core"):
            pods.create(pod("odd", 5))
        free_a_waiting_pod(pods, running)
        control_plane.delete_namespace(pods.namespace)  # pods go before their machines


def on_whole_cores(name: str, cpu: int) -> dict[str, Any]:
    """A pod that requires whole cores of Koordinator."""
    raw = pod(name, cpu, annotations={RESOURCE_SPEC: json.dumps({"requiredCPUBindPolicy": "FullPCPUs"})})
    raw["metadata"]["labels"] = {"koordinator.sh/qosClass": "LSR"}
    return raw


def wait_until_cpus_known(pods: Pods, machines: Sequence[SimulatedMachine]) -> NodeCPUs:
    """Wait until koordlet has written the NRTs whole, and the service knows them. Returns the CPUs of the first."""
    names = [machine.name for machine in machines]
    pods.plane.wait_for("whole NRTs", lambda: all(read_cpus(pods.plane, name) for name in names))
    wait_until_known(pods, len(names))
    cpus = read_cpus(pods.plane, names[0])
    assert cpus is not None
    return cpus


def read_cpus(plane: ControlPlane, node: str) -> NodeCPUs | None:
    return NodeTopology.from_object(topology(plane, node)).cpus


def given(pods: Pods) -> dict[str, frozenset[int]]:
    """The CPUs of the namespace's pods, as the service reads them from the NRTs of both machines."""
    read = [read_cpus(pods.plane, machine.name) for machine in MACHINES]
    every = [each for cpus in read if cpus for each in cpus.given]
    return {key.partition("/")[2]: cpus for key, cpus in every if key.startswith(f"{pods.namespace}/")}


def allocated(pods: Pods, name: str) -> bool:
    return "numaNodeResources" in json.loads(pods.get(name)["metadata"]["annotations"].get(NUMA, "{}"))


def shows(plane: ControlPlane, name: str, *free: str) -> bool:
    """Whether the NRT shows these CPUs as available."""
    return free_cpus(topology(plane, name)) == {f"node-{numa}": cpus for numa, cpus in enumerate(free)}


def bound_pods(plane: ControlPlane, node: str) -> dict[str, ResidentPod]:
    """The pods of a machine, as the service reads them: namespace/name -> pod."""
    items = plane.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={node}")["items"]
    return {each.key: each for each in map(ResidentPod.from_object, items)}


def read_fingerprint(plane: ControlPlane, node: str) -> frozenset[str] | None:
    """The pods that the service reads from the fingerprint of a machine's NRT; None if it cannot."""
    read = NodeTopology.from_object(topology(plane, node))
    assert read.fingerprint is not None
    return reported_pods(read.fingerprint, read.fingerprint_method, [*bound_pods(plane, node).values()], ())
