"""Nodes, NodeResourceTopologies and Topologies with each of their fields at its maximum."""

from collections.abc import Iterator

from tests.bench.worst_cluster import amounts, node, node_topology
from tests.bench.worst_objects import Worst
from webhook.model.raw import Draft


def cluster_objects() -> Iterator[Worst]:  # a list of cases
    """Nodes, NodeResourceTopologies, Topologies."""
    extended = {f"example.com/r{n}": "1" for n in range(500)}
    yield Worst("Node with 500 extended resources", ("Node",), node("node-1", 1, **extended))
    yield Worst(
        "Node with 40000 extended resources",
        ("Node", "decide"),
        node("node-1", 1, **{f"example.com/r{n}": "1" for n in range(40_000)}),
    )
    yield Worst(
        "Node with 40000 faulty quantities",
        ("Node",),
        node("node-1", 1, **{f"example.com/r{n}": "x" for n in range(40_000)}),
    )
    tainted = node("node-1", 1)
    tainted["spec"]["taints"] = [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(40_000)]
    yield Worst("Node with 40000 taints", ("Node", "decide"), tainted)
    labelled = node("node-1", 1)
    labelled["metadata"]["labels"] |= {f"key-{n}": "value" for n in range(60_000)}
    yield Worst("Node with 60000 labels", ("Node",), labelled)
    odd = node("node-1", 1)
    odd["metadata"]["labels"]["node.koordinator.sh/numa-topology-policy"] = "x" * 1_000_000
    yield Worst("Node with a policy of 1000000 characters", ("Node", "validate-node"), odd)
    conditions = node("node-1", 1)
    conditions["status"]["conditions"] = [{"type": f"t{n}", "status": "True"} for n in range(40_000)]
    yield Worst("Node with 40000 conditions", ("Node",), conditions)
    rare = [amounts(f"example.com/r{n}", "1") for n in range(500)]
    yield Worst(
        "NRT with 500 resources in each of 8 zones", ("NRT",), node_topology("node-1", "single-numa-node", 8, *rare)
    )
    yield Worst("NRT of 200 zones", ("NRT", "decide"), node_topology("node-1", "restricted", 200))
    yield Worst("NRT of 1024 zones", ("NRT", "decide"), _bare_zones(1_024))
    yield Worst("NRT of 24 zones", ("NRT", "decide"), node_topology("node-1", "restricted", 24))
    yield Worst("NRT of 16 zones", ("NRT", "decide"), node_topology("node-1", "restricted", 16))
    yield Worst(
        "NRT of 30000 zones of one name",
        ("NRT",),
        {"metadata": {"name": "node-1"}, "zones": [{"name": "node-0", "type": "Node"}] * 30_000},
    )
    yield Worst(
        "NRT of 30000 zones that are no objects",
        ("NRT",),
        {"metadata": {"name": "node-1"}, "zones": ["x" * 20] * 30_000},
    )
    yield Worst(
        "NRT of 1000 zones with names of 1000 characters",
        ("NRT",),
        {"metadata": {"name": "node-1"}, "zones": [{"name": f"{n:01000}", "type": "Node"} for n in range(1_000)]},
    )
    yield Worst(
        "NRT with 40000 attributes",
        ("NRT",),
        {
            "metadata": {"name": "node-1"},
            "attributes": [{"name": "topologyManagerPolicy", "value": "x" * 20} for _ in range(20_000)],
        },
    )
    costs = [{"name": f"node-{n}", "value": 10} for n in range(1_024)] * 20
    yield Worst(
        "NRT with 20000 costs",
        ("NRT",),
        {"metadata": {"name": "node-1"}, "zones": [{"name": "node-0", "type": "Node", "costs": costs}]},
    )
    yield Worst(
        "NRT with 20000 faulty amounts",
        ("NRT",),
        {
            "metadata": {"name": "node-1"},
            "zones": [
                {
                    "name": "node-0",
                    "type": "Node",
                    "resources": [{"name": f"r{n}", "capacity": "x"} for n in range(20_000)],
                }
            ],
        },
    )
    yield Worst(
        "NRT in the first form with 40000 cells",
        ("NRT",),
        {"metadata": {"name": "node-1"}, "cells": {f"c{n}": {} for n in range(40_000)}},
    )
    yield Worst(
        "NRT with 5000 resources in one zone",
        ("NRT",),
        {
            "metadata": {"name": "node-1"},
            "zones": [
                {
                    "name": "node-0",
                    "type": "Node",
                    "resources": [amounts(f"example.com/r{n}", "1") for n in range(5_000)],
                }
            ],
        },
    )
    fields = [{"time": "2024-01-01T00:00:00Z", "fieldsV1": {"f:zones": {}}} for _ in range(20_000)]
    yield Worst("NRT with 20000 managed fields", ("NRT",), {"metadata": {"name": "node-1", "managedFields": fields}})
    for group in ("kai.scheduler", "kueue.x-k8s.io"):
        levels = [{"nodeLabel": f"example.com/level-{n}"} for n in range(40_000)]
        yield Worst(
            f"Topology of {group} with 40000 levels",
            (group, "racks"),
            {"apiVersion": f"{group}/v1", "metadata": {"name": "tree"}, "spec": {"levels": levels}},
        )
        same = [{"nodeLabel": "x" * 1_000_000}, *[{"nodeLabel": "x" * 100}] * 10_000]
        yield Worst(
            f"Topology of {group} with a label of 1000000 characters",
            (group, "racks"),
            {"apiVersion": f"{group}/v1", "metadata": {"name": "tree"}, "spec": {"levels": same}},
        )


def _bare_zones(count: int) -> Draft:
    zones = [{"name": f"node-{n}", "type": "Node", "resources": [amounts("cpu", "1")]} for n in range(count)]
    return {"metadata": {"name": "node-1"}, "zones": zones}
