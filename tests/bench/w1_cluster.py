"""The cluster and the seven gangs of bench W1.

Nodes `node-i` with 96 CPU, 384Gi, 8 GPU, 110 pods; rack = i // 16, block = rack // 16. A pod asks for 12 CPU, 48Gi and
1 GPU: eight slots a node. Slot s of node i is taken when splitmix64(0x57310000 + 8 i + s) % 100 < occupancy.
NUMA-bound: every node has 8 NUMA nodes of 12 CPU, 48Gi, 1 GPU under single-numa-node; slot s is NUMA node s.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from tests.builders.records import GI, node, pod, resident, topology
from webhook.engine.gang.gang_spec import Constraint, Gang, Member, PodSet, Segments
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.topology import Level, Topology, TopologySource

BLOCK, RACK, HOST = 1, 2, 3
SLOTS = 8
GPU = "nvidia.com/gpu"
TOPOLOGY = Topology(
    "w1", TopologySource.KAI, (Level("example.com/block"), Level("example.com/rack"), Level("kubernetes.io/hostname"))
)
SLOT = {"cpu": 12_000, "memory": 48 * GI, GPU: 1}
WORD = (1 << 64) - 1


@dataclass(frozen=True)
class BenchGang:
    """One of the gangs."""

    pods: int
    constraint: Constraint
    segments: Segments | None = None


# As f, in three layers.
NESTED = Segments(
    64,
    Constraint(required=BLOCK),
    0,
    Segments(16, Constraint(required=RACK), 0, Segments(2, Constraint(required=HOST))),
)
REQUESTS = {
    "a": BenchGang(64, Constraint(required=RACK)),
    "b": BenchGang(2304, Constraint(preferred=RACK)),
    "c": BenchGang(512, Constraint(required=BLOCK, preferred=RACK)),
    "d": BenchGang(2304, Constraint(required=RACK)),
    "e": BenchGang(2000, Constraint()),
    "f": BenchGang(256, Constraint(preferred=BLOCK), Segments(16, Constraint(required=RACK))),
    "g": BenchGang(256, Constraint(preferred=BLOCK), NESTED),
}


def splitmix64(seed: int) -> int:
    """The first output of the generator with this state."""
    z = (seed + 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


@cache
def taken_slots(nodes: int, occupancy: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """The slots in use: bool [node, slot]."""
    taken = [splitmix64(0x57310000 + index) % 100 < occupancy for index in range(SLOTS * nodes)]
    return np.array(taken).reshape(nodes, SLOTS)


def cluster(nodes: int, occupancy: int, *, numa: bool) -> ClusterState:
    """The state of the cluster, as informers would fill it."""
    state = ClusterState()
    allocatable = {name: SLOTS * amount for name, amount in SLOT.items()} | {"pods": 110}
    for index, slots in enumerate(taken_slots(nodes, occupancy).tolist()):
        name, rack = f"node-{index}", index // 16
        labels = {
            "example.com/block": f"block-{rack // 16}",
            "example.com/rack": f"rack-{rack}",
            "kubernetes.io/hostname": name,
        }
        state.upsert_node(node(name=name, allocatable=allocatable, labels=labels))
        used = sum(slots)
        if used:
            state.upsert_pod(
                resident(name=f"used-{index}", node=name, requests={of: used * amount for of, amount in SLOT.items()})
            )
        if numa:
            free = [{of: 0 if taken else amount for of, amount in SLOT.items()} for taken in slots]
            state.upsert_topology(topology(node=name, free=free, capacity=SLOT))
    return state


def group(letter: str, *, numa: bool) -> Gang:
    """One of the gangs, as the workload readers would return it."""
    request = REQUESTS[letter]
    template = pod({"cpu": "12", "memory": "48Gi", GPU: "1"}, policy="SingleNUMANode" if numa else None)
    intent, _ = parse_numa_intent(template.annotations)
    members = tuple(Member(f"pod-{rank}", rank) for rank in range(request.pods))
    podset = PodSet("pods", template, intent, members, len(members), request.segments)
    return Gang(letter, request.constraint, (podset,))
