"""The cluster of the demo's snapshot as objects in a real API server. The scheduler alone picks a wrong node there."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.nodes import NODES, TOPOLOGIES
from tests.fingerprints import pod_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER = EXAMPLES / "snapshots" / "cluster.yaml"
POD = EXAMPLES / "pod.yaml"
# What pod.yaml asks for on one NUMA node, and the NUMA nodes of cluster.yaml that have it: {node: NUMA id}.
POD_CPUS = 8
RIGHT = {"node-b": 1, "node-c": 1}
# Most cpus free in sum, so the scheduler's own favourite, but 7 and 7.
WRONG = "node-a"


@contextlib.contextmanager
def example_cluster(plane: ControlPlane) -> Iterator[list[dict[str, Any]]]:
    """The nodes, their running pods, and the NRTs that report them, created within this context."""
    objects = list(yaml.safe_load_all(CLUSTER.read_text()))
    fingerprint(objects)
    residents = "/api/v1/namespaces/default/pods"
    collections = {"Node": NODES, "Pod": residents, "NodeResourceTopology": TOPOLOGIES}
    created: list[str] = []
    try:
        for item in sorted(objects, key=lambda item: list(collections).index(item["kind"])):
            collection = collections[item["kind"]]
            plane.api.create(collection, item)
            created.append(f"{collection}/{item['metadata']['name']}")
        yield objects
    finally:
        for path in reversed(created):
            # No kubelet is there to confirm that a bound pod ended.
            plane.api.delete(path, {"gracePeriodSeconds": 0})


def fingerprint(objects: list[dict[str, Any]]) -> None:
    """Let each NRT name the pods it reports, as exporters do: here no pod is older than its NRT."""
    for topology in (item for item in objects if item["kind"] == "NodeResourceTopology"):
        pods = [item for item in objects if item.get("spec", {}).get("nodeName") == topology["metadata"]["name"]]
        names = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]
        topology["attributes"] += [
            {"name": "nodeTopologyPodsFingerprint", "value": pod_fingerprint(names)},
            {"name": "nodeTopologyPodsFingerprintMethod", "value": "all"},
        ]


def node_of(plane: ControlPlane, name: str, namespace: str = "default") -> str:
    """Wait until the scheduler has bound the pod. Returns the node."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    node: str = plane.wait_for(
        f"the scheduler's choice for {name}", lambda: plane.api.get(path)["spec"].get("nodeName")
    )
    return node
