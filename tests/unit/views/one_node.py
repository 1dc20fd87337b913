"""The details of the node n0, and pods on it."""

from typing import Any

from tests.builders.clusters import put
from webhook.formats.koordinator.numa_allocation import UnverifiedAllocations
from webhook.state.cluster_cache import ClusterCache
from webhook.views.nodes import NodeDetails, node_details

# 2030-01-01T02:00:00Z, when the NRTs were written.
WRITTEN_AT = 1_893_463_200


def allocated(numa: int, cpus: int) -> dict[str, str]:
    return allocated_on("n0", numa, cpus)


def allocated_on(node: str, numa: int, cpus: int) -> dict[str, str]:
    allocation = f'{{"node":"{node}","numaNodeResources":[{{"node":{numa},"resources":{{"cpu":"{cpus}"}}}}]}}'
    return {"topology-webhook.dev/numa": allocation}


def bound_at(hour: int) -> dict[str, Any]:
    return {"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"2030-01-01T{hour:02}:00:00Z"}
    ]}  # fmt: skip


def details(*objects: dict[str, Any], now: float = WRITTEN_AT + 3_600) -> NodeDetails:
    cache = ClusterCache(clock=lambda: now)
    cache.use_allocation_key(UnverifiedAllocations(b""))
    for raw in objects:
        put(cache, raw)
    found = node_details(cache, "n0")
    assert found is not None
    return found
