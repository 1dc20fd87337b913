"""Nodes and their NodeResourceTopologies as the API server gives them."""

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.model.names import HOSTNAME_LABEL


def node(
    *,
    name: str,
    hostname: str | None = "",
    cpus: int = 32,
    memory: str = "128Gi",
    devices: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A node. hostname: "" = the node's name; None = no hostname label. devices: resource -> how many."""
    own = {} if hostname is None else {HOSTNAME_LABEL: hostname or name}
    pieces = {device: str(count) for device, count in (devices or {}).items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**(labels or {}), **own}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": str(cpus), "memory": memory, "pods": "110", **pieces},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def resource(*, name: str, capacity: Any, allocatable: Any = None, available: Any = None) -> dict[str, Any]:
    """A resource of a zone. allocatable: as much as the capacity if left out; available: as much as is allocatable."""
    whole = capacity if allocatable is None else allocatable
    free = whole if available is None else available
    return {"name": name, "capacity": str(capacity), "allocatable": str(whole), "available": str(free)}


def zone(
    *, numa_id: int, resources: Sequence[Mapping[str, Any]], costs: Mapping[int, int] | None = None
) -> dict[str, Any]:
    """A NUMA node in an NRT. costs: NUMA node -> distance."""
    distances = [{"name": f"node-{other}", "value": cost} for other, cost in (costs or {}).items()]
    return {
        "name": f"node-{numa_id}",
        "type": "Node",
        **({"costs": distances} if distances else {}),
        "resources": [dict(each) for each in resources],
    }


def nrt(
    *,
    node: str,
    free: Sequence[int] = (),
    policy: str = "single-numa-node",
    scope: str = "container",
    cpus: int = 16,
    memory: str | None = "64Gi",
    devices: Mapping[str, Sequence[int]] | None = None,
    zones: Sequence[Mapping[str, Any]] | None = None,
    attributes: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The NRT of a node.

    cpus: of each NUMA node; free: how many of them are free, for each NUMA node.
    memory: of each NUMA node, all of it free; None: the exporter lists none.
    devices: resource -> how many each NUMA node has, all of them free.
    zones: instead of those that the amounts above describe.
    """

    def amounts(numa_id: int) -> list[dict[str, Any]]:
        listed = [] if memory is None else [resource(name="memory", capacity=memory)]
        pieces = [resource(name=device, capacity=count[numa_id]) for device, count in (devices or {}).items()]
        return [resource(name="cpu", capacity=cpus, available=free[numa_id]), *listed, *pieces]

    described = {"topologyManagerPolicy": policy, "topologyManagerScope": scope, **(attributes or {})}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node, **(metadata or {})},
        "attributes": [{"name": name, "value": value} for name, value in described.items()],
        "zones": [zone(numa_id=numa_id, resources=amounts(numa_id)) for numa_id in range(len(free))]
        if zones is None
        else [dict(each) for each in zones],
    }
