"""The state of a machine's resource managers. An NRT shows only a part of it.

Source: kubernetes pkg/kubelet/cm (device, cpu and memory managers with policy static).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.conformance.hints import Hint
from tests.conformance.reference_cpus import CPUMap
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import CPU, MEMORY, amount, is_hugepages

Nodes = tuple[int, ...]
"""NUMA ids, ascending."""


@dataclass
class Block:
    """Memory or huge pages of one container."""

    affinity: Nodes
    kind: str
    size: int


@dataclass
class Held:
    """What one container holds."""

    name: str
    hint: Hint
    cpus: frozenset[int] = frozenset()
    memory: list[Block] = field(default_factory=list)
    devices: dict[str, frozenset[str]] = field(default_factory=dict)


@dataclass
class Memory:
    """Memory and huge pages of one NUMA node, in bytes."""

    allocatable: dict[str, int]
    free: dict[str, int]
    assignments: int
    group: Nodes


class Published(NamedTuple):
    """One resource of one NUMA node in an NRT, cpu in millicores."""

    capacity: int
    allocatable: int
    available: int


class Machine:
    """One machine and its pods. `machine` is the description of tests/conformance/golden's kubelet cases."""

    def __init__(self, machine: Mapping[str, Any]) -> None:
        self.policy = NUMAPolicy.from_kubelet(machine["policy"]) or NUMAPolicy.NONE
        self.scope = Scope.from_kubelet(machine["scope"]) or Scope.CONTAINER
        closest = machine.get("options", {}).get("prefer-closest-numa-nodes") == "true"
        self.distances = machine["distances"] if closest else None
        numa = machine["numa"]
        self.nodes: Nodes = tuple(range(len(numa)))
        self.topology = _cpu_topology(numa)
        self.reserved = _cpu_list(machine.get("reservedCPUs", ""))
        self.shared_cpus = frozenset(self.topology.numa) - self.reserved
        # A size of huge pages that one NUMA node has is known of every one.
        pages = {name: "0" for described in numa for name in described.get("hugepages", {})}
        self.memory = {node: _memory(node, described, pages) for node, described in enumerate(numa)}
        self.devices: Mapping[str, Mapping[str, Nodes]] = {
            name: {device: tuple(near) for device, near in devices.items()}
            for name, devices in machine["devices"].items()
        }
        self.taken_devices: dict[str, set[str]] = {name: set() for name in self.devices}
        self.pods: dict[str, list[Held]] = {}

    def remove(self, key: str) -> None:
        """Remove a pod: everything it holds is free again."""
        containers = self.pods.pop(key)
        for held in containers:
            # A socket that counts as free because its size is the average one may bring a reserved CPU with it.
            self.shared_cpus |= held.cpus - self.reserved
            for name, devices in held.devices.items():
                self.taken_devices[name] -= devices
            for block in held.memory:
                self._release(block)

    def _release(self, block: Block) -> None:
        left = block.size
        for node in block.affinity:
            memory = self.memory[node]
            memory.assignments -= 1
            if memory.assignments == 0:
                memory.group = (node,)
            back = min(left, memory.allocatable.get(block.kind, 0) - memory.free.get(block.kind, 0))
            if back:
                memory.free[block.kind] += back
                left -= back

    def published(self) -> Mapping[int, Mapping[str, Published]]:
        """What a publisher that subtracts reports: NUMA id -> resource -> amounts, cpu in millicores."""
        return {node: {**self._published_cpus_and_memory(node), **self._published_devices(node)} for node in self.nodes}

    def _published_cpus_and_memory(self, node: int) -> dict[str, Published]:
        cpus, memory = self.topology.by_numa.get(node, frozenset()), self.memory[node]
        counts = (len(cpus), len(cpus - self.reserved), len(cpus & self.shared_cpus))
        published = {CPU: Published(*(1000 * count for count in counts))}
        for kind, size in memory.allocatable.items():
            published[kind] = Published(size, size, memory.free[kind])
        # The capacity of memory includes the huge pages, and on the first NUMA node a byte that the system keeps.
        pages = sum(size for kind, size in memory.allocatable.items() if is_hugepages(kind))
        total = memory.allocatable[MEMORY] + pages + (node == self.nodes[0])
        published[MEMORY] = published[MEMORY]._replace(capacity=total)
        return published

    def _published_devices(self, node: int) -> dict[str, Published]:
        published = {}
        for name, devices in self.devices.items():
            near = {device for device, at in devices.items() if node in at}
            if near:
                published[name] = Published(len(near), len(near), len(near - self.taken_devices[name]))
        return published


def _cpu_topology(numa: Sequence[Mapping[str, Any]]) -> CPUMap:
    core: dict[int, int] = {}
    at: dict[int, int] = {}
    socket: dict[int, int] = {}
    cores = 0
    for node, described in enumerate(numa):
        threads = described.get("threadsPerCore", 1)
        for index in range(described["cpus"]):
            cpu = len(at)
            core[cpu] = cores + index // threads
            at[cpu] = node
            socket[cpu] = described.get("socket", node)
        cores += -(-described["cpus"] // threads)
    return CPUMap(core, at, socket)


def _cpu_list(text: str) -> frozenset[int]:
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def _memory(node: int, described: Mapping[str, Any], pages: Mapping[str, str]) -> Memory:
    sizes = {MEMORY: amount(MEMORY, described["memory"])}
    sizes |= {name: amount(name, size) for name, size in {**pages, **described.get("hugepages", {})}.items()}
    return Memory(sizes, dict(sizes), 0, (node,))
