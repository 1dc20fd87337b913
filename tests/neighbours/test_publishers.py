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

from tests.cluster.gated import NUMA, Pods, pod, wait_until_known
from tests.cluster.kubelets import SimulatedMachine, kubelets
from tests.cluster.nodes import TOPOLOGIES
from tests.cluster.racked import webhook
from tests.fingerprints import pod_fingerprint
from tests.neighbours.catalogue import NFD, Neighbour
from tests.neighbours.publishers import nfd_topology_updater

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles

__all__ = ["webhook"]  # a fixture

MACHINES = tuple(SimulatedMachine(f"m-{number}") for number in range(2))


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


@pytest.mark.neighbour("nfd", short_round=True)
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
        assert attributes(written) == {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container"}

        names = [f"p-{number}" for number in range(4)]
        for name in names:
            pods.create(pod(name, cpu=10))
        pods.wait_until_bound(*names)
        control_plane.wait_for(
            "certain hints, after the exporter wrote", lambda: all(map(partial(hinted, pods), names))
        )
        assert len({(node, tuple(numa)) for node, numa in map(pods.hint, names)}) == len(names)
        for machine in MACHINES:
            control_plane.wait_for(
                "what they hold", partial(shows, control_plane, machine.name, {"node-0": "6", "node-1": "6"})
            )
            here = [(pods.namespace, name) for name, node in pods.bound().items() if node == machine.name]
            assert attributes(topology(control_plane, machine.name))["nodeTopologyPodsFingerprint"] == pod_fingerprint(
                here
            )

        pods.create(pod("late", cpu=10))
        control_plane.wait_for("it to wait", lambda: "late" in pods.gated())
        node, (numa,) = pods.hint(names[0])
        pods.delete(names[0])
        pods.wait_until_bound("late")
        control_plane.wait_for("its hint", partial(hinted, pods, "late"))
        assert pods.hint("late") == (node, [numa])
        control_plane.wait_for("it to run", lambda: pods.get("late")["status"]["phase"] == "Running")
        assert running.events("rejected") == []
        control_plane.delete_namespace(pods.namespace)  # pods go before their machines


def hinted(pods: Pods, name: str) -> bool:
    return "numaNodeResources" in json.loads(pods.get(name)["metadata"]["annotations"].get(NUMA, "{}"))


def shows(plane: ControlPlane, name: str, free: dict[str, str]) -> bool:
    return free_cpus(topology(plane, name)) == free
