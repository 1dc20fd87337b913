"""The cluster of the worst cases: equal machines, as objects that an API server sends."""

from webhook.formats.topology import TopologySource
from webhook.model.names import KAI_TOPOLOGY
from webhook.model.raw import Draft
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

NODES, ZONES = 5_000, 8


def node(name: str, number: int = 0, **more: str) -> Draft:
    """A node with 16 CPUs and 64Gi in each NUMA node."""
    allocatable = {"cpu": "128", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti", "nvidia.com/gpu": "8"}
    labels = {"kubernetes.io/hostname": name, "zone": f"zone-{number % 4}", "rack": f"rack-{number % 100}"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": allocatable | more, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def amounts(name: str, quantity: str) -> Draft:
    """One resource of a NUMA node, all of it free."""
    return {"name": name, "capacity": quantity, "allocatable": quantity, "available": quantity}


def node_topology(name: str, policy: str, zones: int = ZONES, *more: Draft) -> Draft:
    """Its NodeResourceTopology."""
    resources = [amounts("cpu", "16"), amounts("memory", "64Gi"), amounts("nvidia.com/gpu", "1"), *more]
    costs = [{"name": f"node-{to}", "value": 10} for to in range(zones)]
    return {
        "metadata": {"name": name},
        "attributes": [{"name": "topologyManagerPolicy", "value": policy}],
        "zones": [
            {"name": f"node-{numa_id}", "type": "Node", "costs": costs, "resources": resources}
            for numa_id in range(zones)
        ],
    }


def tree(levels: int = 2) -> Draft:
    """A Topology whose first levels are zone and rack."""
    labels = ["zone", "rack", *(f"level-{number}" for number in range(2, levels))]
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "metadata": {"name": "tree"},
        "spec": {"levels": [{"nodeLabel": label} for label in labels[:levels]]},
    }


def cluster(nodes: int = NODES, zones: int = ZONES, rules: Rules | None = None) -> ClusterCache:
    """A cache with `nodes` nodes, with every NUMA policy in turn, and a topology."""
    cache = ClusterCache(rules=rules)
    policies = ("single-numa-node", "restricted", "best-effort", "none")
    for number in range(nodes):
        name = f"node-{number}"
        cache.nodes.upsert(name, node(name, number))
        cache.node_topologies.upsert(name, node_topology(name, policies[number % len(policies)], zones))
    cache.topologies[TopologySource.KAI].upsert("tree", tree())
    cache.snapshot()
    return cache


ASKS_FOR_A_RACK = {KAI_TOPOLOGY: "tree", "kai.scheduler/topology-required-placement": "rack"}
