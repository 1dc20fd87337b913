"""The machines of the synthetic cluster and the pods that run on them from the beginning.

Every machine has `zones` NUMA nodes with 16 CPUs, 64Gi and one device, under single-numa-node. Of its `pods` pods two
fifths are Guaranteed with 8 CPUs and 32Gi, one in each of the first NUMA nodes, and reported by the NRT. The others
request a quarter of a CPU, as daemons and sidecars do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ZONE_CPUS: Final = 16
ZONE_MEMORY_GIB: Final = 64
POD_CPUS: Final = 8
POD_MEMORY_GIB: Final = 32
PODS_PER_ZONE: Final = 2
NAMESPACES: Final = 50


@dataclass(frozen=True, slots=True)
class FixedPod:
    """A pod that runs from the beginning to the end. numa_id: None = it has no exclusive resources."""

    number: int
    node: int
    numa_id: int | None

    @property
    def name(self) -> str:
        return f"web-{self.number:x}"

    @property
    def namespace(self) -> str:
        return namespace_of(self.number)


def node_name(node: int) -> str:
    return f"node-{node:05}"


def node_number(name: str) -> int:
    return int(name.removeprefix("node-"))


def namespace_of(number: int) -> str:
    return f"tenant-{number % NAMESPACES}"


class EqualMachines:
    """`nodes` equal machines."""

    def __init__(self, nodes: int, zones: int, pods: int) -> None:
        self.nodes = nodes
        self.zones = zones
        self.pods_per_node = pods
        self._exclusive = min(2 * pods // 5, zones)

    @property
    def pods(self) -> int:
        """How many pods run from the beginning."""
        return self.nodes * self.pods_per_node

    def fixed_pod(self, number: int) -> FixedPod:
        node, slot = divmod(number, self.pods_per_node)
        return FixedPod(number, node, slot if slot < self._exclusive else None)

    def fixed_pods_on(self, node: int) -> list[FixedPod]:
        first = node * self.pods_per_node
        return [self.fixed_pod(number) for number in range(first, first + self.pods_per_node)]
