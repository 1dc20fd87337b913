"""The cluster of the engine bench: equal machines, half of them full. The choice is random with a fixed seed."""

from dataclasses import dataclass
from random import Random

from tests.builders.records import GI, node, pod, topology
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.nrt import NodeTopology
from webhook.model.policy import NUMAPolicy

CPUS = 16
"""Of each NUMA node, beside 128Gi and one device."""
GPU = "example.com/gpu"


@dataclass(frozen=True)
class HalfFullCluster:
    """The cluster, and what is needed to change it."""

    state: ClusterState
    topologies: list[NodeTopology]


def fleet(nodes: int, zones: int, policy: NUMAPolicy = NUMAPolicy.SINGLE_NUMA_NODE) -> HalfFullCluster:
    """`nodes` nodes with `zones` NUMA nodes each, on which 0 to all CPUs and devices are free."""
    random = Random(nodes * 10 + zones)  # noqa: S311 - reproducible, not secret
    state = ClusterState()
    topologies = []
    whole = {"cpu": 1000 * CPUS, "memory": 128 * GI, GPU: 1}
    allocatable = {name: amount * zones for name, amount in whole.items()} | {"pods": 110, "ephemeral-storage": 2**40}
    for number in range(nodes):
        name = f"node-{number}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
        state.upsert_node(node(name=name, allocatable=allocatable, labels=labels))
        free = [
            {"cpu": 1000 * random.randint(0, CPUS), "memory": random.randint(0, 128) * GI, GPU: random.randint(0, 1)}
            for _ in range(zones)
        ]
        topologies.append(topology(node=name, free=free, capacity=whole, policy=policy))
        state.upsert_topology(topologies[-1])
    return HalfFullCluster(state, topologies)


def asked(cpus: int = 12, policy: str | None = "SingleNUMANode", memory: str = "64Gi") -> Pod:
    """A pod that asks for most of a NUMA node."""
    return pod({"cpu": str(cpus), "memory": memory}, policy=policy, spec={"nodeSelector": {}})
