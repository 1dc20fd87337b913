"""Nodes and their NodeResourceTopologies as the API server gives them."""

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.model.names import HOSTNAME_LABEL


def node(
    *, name: str, hostname: str | None = "", cpus: int = 32, labels: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """A node. hostname: "" = the node's name; None = no hostname label."""
    own = {} if hostname is None else {HOSTNAME_LABEL: hostname or name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**(labels or {}), **own}},
        "spec": spec,
        "status": {"allocatable": {"cpu": str(cpus), "memory": "128Gi", "pods": "110"}},
    }


def nrt(
    *,
    node: str,
    free: Sequence[int],
    policy: str = "single-numa-node",
    scope: str = "container",
    cpus: int = 16,
    memory: str = "64Gi",
) -> dict[str, Any]:
    """The NRT of a node. cpus: of each NUMA node; free: how many of them are free, for each NUMA node."""
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": scope},
        ],
        "zones": [
            {
                "name": f"node-{numa_id}",
                "type": "Node",
                "resources": [
                    {"name": "cpu", "capacity": str(cpus), "allocatable": str(cpus), "available": str(available)},
                    {"name": "memory", "capacity": memory, "allocatable": memory, "available": memory},
                ],
            }
            for numa_id, available in enumerate(free)
        ],
    }
