"""How thousands of waiting signatures delay a pod of another tenant, in the leader's own cycles. Nothing is written.

The cluster has 5,000 nodes with 8 NUMA nodes each. The pods of one namespace fit nowhere, each with another signature.
Then a pod of another namespace comes that fits. The bench counts the failed decisions before it is placed, and the time
from its arrival, including pauses between cycles, next to the time of one decision.
"""

import asyncio
import gc
from collections.abc import Iterator
from time import monotonic
from typing import Any

from structlog.testing import capture_logs

from tests.bench.measure import duration
from tests.builders.nodes import node
from tests.unit.controllers.placement.busy_cluster import BusyCluster
from webhook.controllers.sweep import rest_after

SIZES = [(0, 5000, 8), (3000, 5000, 8)]
"""(waiting signatures, nodes, NUMA nodes of each)."""


def lines() -> Iterator[dict[str, Any]]:
    """All measurements."""
    for shapes, nodes, zones in SIZES:
        with capture_logs():  # what is written out here are lines for programs
            line = asyncio.run(_measure(shapes, nodes, zones))
        yield line


def text(line: dict[str, Any]) -> str:
    """A measurement as text."""
    return (
        f"{line['shapes']:>6} waiting shapes, {line['nodes']} nodes: {line['decisions']} decisions in vain, "
        f"{duration(line['delay_ms'] * 1e6)} until another namespace's pod is placed"
    )


async def _measure(shapes: int, nodes: int, zones: int) -> dict[str, Any]:
    cluster = BusyCluster(monotonic)
    for number in range(nodes):
        name = f"m{number}"
        cluster.cache.nodes.upsert(name, node(name=name, cpus=8))
        cluster.cache.node_topologies.upsert(name, _topology(name, zones))
    for number in range(shapes):
        cluster.create("crowd", f"p{number}", str(100 + number))
    for _ in range(3):  # they have just come: some were tried, most were not
        await cluster.play()
    gc.collect()
    made, cluster.decisions = cluster.decisions, 0
    # It comes just after a cycle has begun: that one, its rest, and then its own cycle.
    began = monotonic()
    rest = 0.0 if shapes == 0 else rest_after(monotonic() - await _a_cycle(cluster))
    cluster.create("others", "fits", "2", created=9)
    while "others/fits" in cluster.cache.gated_pods():
        await cluster.play()
    delay = monotonic() - began + rest
    return {
        "bench": "crowd",
        "shapes": shapes,
        "nodes": nodes,
        "decided_before": made,
        "decisions": cluster.decisions,
        "delay_ms": round(delay * 1000, 1),
    }


async def _a_cycle(cluster: BusyCluster) -> float:
    """Run one cycle. Returns its start."""
    began = monotonic()
    await cluster.play()
    return began


def _topology(name: str, zones: int) -> dict[str, Any]:
    resources = [
        {"name": resource, "capacity": amount, "allocatable": amount, "available": amount}
        for resource, amount in (("cpu", "8"), ("memory", "16Gi"))
    ]
    return {
        "metadata": {"name": name},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(zones)],
    }
