"""A cluster of two zones, with the numbers of each domain worked out by hand.

    zone-a ─┬─ rack-1 ── n0 [8 3]  n1 [0 16]        [free of 16 CPUs, per NUMA node]
            └─ rack-2 ── n2 [16 16], cordoned
    zone-b ─── rack-1 ── n3 [15 16]
    (none) ───────────── n4, without NRT

Each node has 32 CPUs and 4 GPUs, 2 on each NUMA node.

| node | pods                                    | CPUs requested | free of 32 | GPUs free |
|------|-----------------------------------------|----------------|------------|-----------|
| n0   | a0 (8 CPUs, 2 GPUs), b0 (13), train-0    | 8 + 13 + 0.5   | 10.5       | 2         |
| n1   | train-1 (16)                             | 16             | 16         | 4         |
| n2   | none                                     | 0              | 0: cordoned | 0        |
| n3   | train-2 (1)                              | 1              | 31         | 4         |
| n4   | none                                     | 0              | 32         | 4         |

What the exporters publish as free shows these pods. A block is never larger than what the node has free: n0 has 8
free CPUs in NUMA node 0, and 10.5 as a whole; n4 publishes no NUMA nodes.
"""

from typing import Any

from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.pods import bound
from tests.builders.topologies import topology

GPU = "nvidia.com/gpu"
ZONE, RACK = "example.com/zone", "example.com/rack"
TOPOLOGY = topology(labels=(ZONE, RACK))
# The pods' exporter has reported them: its fingerprint is unknown, and they were bound long before it wrote.
WRITTEN = {
    "managedFields": [
        {"manager": "nfd", "operation": "Update", "time": "2030-01-01T02:00:00Z", "fieldsV1": {"f:zones": {}}}
    ]
}


def machine(name: str, free: tuple[int, ...], gpus: tuple[int, ...], labels: dict[str, str], **spec: Any) -> list[Any]:
    """A node and, if it has NUMA nodes, its NRT."""
    itself = node(name=name, cpus=32, devices={GPU: 4}, labels=labels, **spec)
    zones = [
        zone(
            numa_id=number,
            resources=[
                resource(name="cpu", capacity=16, available=cpus),
                resource(name="memory", capacity="64Gi"),
                resource(name=GPU, capacity=2, available=gpus[number]),
            ],
        )
        for number, cpus in enumerate(free)
    ]
    return [itself, nrt(node=name, zones=zones, metadata=WRITTEN)] if free else [itself]


def cluster() -> list[dict[str, Any]]:
    """The objects."""
    return [
        TOPOLOGY,
        *machine("n0", (8, 3), (0, 2), {ZONE: "zone-a", RACK: "rack-1"}),
        *machine("n1", (0, 16), (2, 2), {ZONE: "zone-a", RACK: "rack-1"}),
        *machine("n2", (16, 16), (2, 2), {ZONE: "zone-a", RACK: "rack-2"}, unschedulable=True),
        *machine("n3", (15, 16), (2, 2), {ZONE: "zone-b", RACK: "rack-1"}),
        *machine("n4", (), (), {}),
        bound(name="a0", node="n0", cpu=8, devices={GPU: 2}),
        bound(name="b0", node="n0", cpu=13, numa=None),
        bound(name="train-0", node="n0", cpu="500m", numa=None, group="train"),
        bound(name="train-1", node="n1", cpu=16, group="train"),
        bound(name="train-2", node="n3", cpu=1, numa=None, group="train"),
        bound(name="other-0", namespace="team", node="n1", cpu=0, memory="0", numa=None, group="other"),
    ]
