"""A cluster in which one rack holds most of a gang that needs whole NUMA nodes."""

from typing import TYPE_CHECKING

from tests.builders.gangs import racks
from tests.builders.records import cpus, node, state, topology
from webhook.engine.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from webhook.formats.kubernetes.node import Node
    from webhook.formats.nrt import NodeTopology

# zone-a ─┬─ rack-1 ── n0 [8 2]  n1 [2 2]   of 8 a NUMA node      [free CPUs]
#         ├─ rack-2 ── n2 [8 2]  n3 [2 8]   of 8
#         └─ rack-3 ── n4 [4 4 4 4]         of 4
# zone-b ─── rack-4 ── n5 [8]               of 8
PLACES = racks(
    n0="zone-a/rack-1",
    n1="zone-a/rack-1",
    n2="zone-a/rack-2",
    n3="zone-a/rack-2",
    n4="zone-a/rack-3",
    n5="zone-b/rack-4",
)


FREE = {"n0": (8, 2), "n1": (2, 2), "n2": (8, 2), "n3": (2, 8), "n4": (4, 4, 4, 4), "n5": (8,)}


WHOLE = {"n4": 4}


def snapshot(**free: tuple[int, ...]) -> Snapshot:
    objects: list[Node | NodeTopology] = []
    for name, (zone, rack) in PLACES.items():
        labels = {"example.com/zone": zone or "", "example.com/rack": rack or ""}
        zones = {**FREE, **free}[name]
        objects.append(node(name=name, allocatable={"cpu": 1_000_000, "memory": 1 << 40, "pods": 110}, labels=labels))
        objects.append(topology(node=name, free=cpus(*zones), capacity={"cpu": 1000 * WHOLE.get(name, 8)}))
    return Snapshot(state(*objects).node_arrays())
