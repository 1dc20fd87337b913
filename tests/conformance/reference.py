"""A kubelet's resource managers written plainly: one machine, pods admitted one after the other, the whole state kept.

It knows what an NRT hides: which NUMA nodes form memory groups, which CPUs and devices are taken. The conformance
runner replays sequences with it, and property tests compare the engine's predictions with what it decides.
Devices that are equal are picked by their ids; the kubelet picks at random.

Source: kubernetes pkg/kubelet/cm (topology, device, cpu and memory managers with policy static).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any, Final

from tests.conformance.hints import Hint, merge_hints
from tests.conformance.reference_cpus import CPUTopology, take_cpus
from webhook.model.pod import Container, ContainerKind, Pod, QoS
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import CPU, MEMORY, amount, is_hugepages

AFFINITY: Final = "TopologyAffinityError"
ALLOCATION: Final = "UnexpectedAdmissionError"

Nodes = tuple[int, ...]
"""NUMA ids, ascending."""


class RefusedError(Exception):
    """The pod is rejected; the argument is the kubelet's reason."""


@dataclass
class Block:
    """Memory or huge pages of one container."""

    affinity: Nodes
    kind: str
    size: int


@dataclass
class Held:
    """What one container got."""

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


@lru_cache(maxsize=256)
def _sets(nodes: Nodes) -> tuple[Nodes, ...]:
    """All sets of the NUMA nodes, narrow ones first, then by id."""
    return tuple(chosen for width in range(1, len(nodes) + 1) for chosen in combinations(nodes, width))


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
        self.memory = {node: _memory(node, described) for node, described in enumerate(numa)}
        self.devices: Mapping[str, Mapping[str, Nodes]] = {
            name: {device: tuple(near) for device, near in devices.items()}
            for name, devices in machine["devices"].items()
        }
        self.taken_devices: dict[str, set[str]] = {name: set() for name in self.devices}
        self.pods: dict[str, list[Held]] = {}

    def admit(self, pod: Pod) -> list[Held]:
        """Admit the pod and return what its containers hold; raises RefusedError, leaving nothing allocated."""
        admission = _Admission(self, pod)
        self.pods[pod.key] = admission.held
        try:
            admission.run()
        except RefusedError:
            self.remove(pod.key)
            raise
        return admission.held

    def remove(self, key: str) -> None:
        """The pod is gone: everything it holds is free again."""
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

    def available(self) -> Mapping[int, Mapping[str, int]]:
        """What an exporter publishes as available: NUMA id -> resource -> amount, cpu in millicores."""
        published: dict[int, dict[str, int]] = {}
        for node in self.nodes:
            published[node] = {
                CPU: 1000 * len(self.shared_cpus & self.topology.by_numa[node]),
                **self.memory[node].free,
            }
            for name, devices in self.devices.items():
                near = {device for device, at in devices.items() if node in at}
                if near:
                    published[node][name] = len(near - self.taken_devices[name])
        return published


class _Admission:
    """One pod on one machine."""

    def __init__(self, machine: Machine, pod: Pod) -> None:
        self.machine = machine
        self.pod = pod
        self.guaranteed = pod.qos is QoS.GUARANTEED and pod.pod_level is None
        self.held: list[Held] = []
        self.reusable_cpus: frozenset[int] = frozenset()
        self.reusable_devices: dict[str, frozenset[str]] = {name: frozenset() for name in machine.devices}
        self.reusable_memory: dict[tuple[Nodes, str], int] = {}

    def run(self) -> None:
        together = None
        if self.machine.scope is Scope.POD and self.machine.policy is not NUMAPolicy.NONE:
            together = self._merged(self._pod_cpus(), self._pod_memory(), self._pod_devices())
        for container in self.pod.containers:
            hint = together
            if hint is None:
                hint = self._merged(self._cpus(container), self._memory(container), self._devices(container))
            held = Held(container.name, hint)
            self.held.append(held)
            for name, count in self._devices(container).items():
                self._allocate_devices(container, held, name, count)
            if self._cpus(container):
                self._allocate_cpus(container, held)
            if self._memory(container):
                self._allocate_memory(container, held)

    # What a container, or the pod, asks of the managers.

    def _cpus(self, container: Container) -> int:
        cpu = container.requests.get(CPU, 0)
        return cpu // 1000 if self.guaranteed and cpu % 1000 == 0 else 0

    def _memory(self, container: Container) -> dict[str, int]:
        if not self.guaranteed:
            return {}
        return {name: size for name, size in container.requests.items() if name == MEMORY or is_hugepages(name)}

    def _devices(self, container: Container) -> dict[str, int]:
        return {name: count for name, count in container.limits.items() if name in self.machine.devices}

    def _pod_cpus(self) -> int:
        return self._peak([({CPU: self._cpus(container)}, container) for container in self.pod.containers])[CPU]

    def _pod_memory(self) -> dict[str, int]:
        peak = self._peak([(self._memory(container), container) for container in self.pod.containers])
        in_apps = {
            name
            for container in self.pod.containers
            if container.kind is ContainerKind.APP
            for name in self._memory(container)
        }
        return {name: size for name, size in peak.items() if name in in_apps}

    def _pod_devices(self) -> dict[str, int]:
        return self._peak([(self._devices(container), container) for container in self.pod.containers])

    @staticmethod
    def _peak(asked: Sequence[tuple[Mapping[str, int], Container]]) -> dict[str, int]:
        """max(apps + sidecars, each init container + the sidecars before it)."""
        running: dict[str, int] = {}
        peak: dict[str, int] = {}
        sidecars: dict[str, int] = {}
        for amounts, container in asked:
            for name, count in amounts.items():
                if container.kind is ContainerKind.INIT:
                    peak[name] = max(peak.get(name, 0), count + sidecars.get(name, 0))
                else:
                    running[name] = running.get(name, 0) + count
                if container.kind is ContainerKind.SIDECAR:
                    sidecars[name] = sidecars.get(name, 0) + count
        return {name: max(running.get(name, 0), peak.get(name, 0)) for name in {**running, **peak}}

    # Hints.

    def _merged(self, cpus: int, memory: Mapping[str, int], devices: Mapping[str, int]) -> Hint:
        machine = self.machine
        if machine.policy is NUMAPolicy.NONE:
            return Hint(None, preferred=False)
        providers: list[Mapping[str, list[Hint] | None]] = [
            {name: self._device_hints(name, count) for name, count in devices.items()},
            {CPU: self._cpu_hints(cpus)} if cpus else {},
            self._memory_hints(memory) if memory else {},
        ]
        hint, admitted = merge_hints(machine.policy, machine.nodes, providers, machine.distances)
        if not admitted:
            raise RefusedError(AFFINITY)
        return hint

    def _device_hints(self, name: str, count: int) -> list[Hint] | None:
        near = self.machine.devices[name]
        nodes = tuple(sorted({node for at in near.values() for node in at}))
        if not nodes:
            return None
        free = near.keys() - self.machine.taken_devices[name]
        reusable = self.reusable_devices[name]
        if len(free | reusable) < count:
            return []
        found, narrowest = [], len(nodes)
        for chosen in _sets(nodes):
            inside = {device for device, at in near.items() if not set(at).isdisjoint(chosen)}
            if len(inside) >= count:
                narrowest = min(narrowest, len(chosen))
            if {device for device in reusable if near[device]} <= inside and len(inside & (free | reusable)) >= count:
                found.append(chosen)
        return [Hint(chosen, preferred=len(chosen) == narrowest) for chosen in found]

    def _cpu_hints(self, count: int) -> list[Hint]:
        by_numa = self.machine.topology.by_numa
        reusable = self.reusable_cpus
        needed = {node for node, cpus in by_numa.items() if cpus & reusable}
        free = {node: len(cpus & (self.machine.shared_cpus | reusable)) for node, cpus in by_numa.items()}
        nodes = tuple(sorted(by_numa))
        found, narrowest = [], len(nodes)
        for chosen in _sets(nodes):
            if sum(len(by_numa[node]) for node in chosen) >= count:
                narrowest = min(narrowest, len(chosen))
            if needed <= set(chosen) and sum(free[node] for node in chosen) >= count:
                found.append(chosen)
        return [Hint(chosen, preferred=len(chosen) == narrowest) for chosen in found]

    def _memory_hints(self, requested: Mapping[str, int]) -> dict[str, list[Hint] | None]:
        found = self._memory_sets(requested)
        return {name: list(found) for name in requested} if found else {}

    def _memory_sets(self, requested: Mapping[str, int]) -> list[Hint]:
        memory = self.machine.memory
        found, narrowest = [], len(memory)
        for chosen in _sets(self.machine.nodes):
            there = [memory[node] for node in chosen]
            if any(sum(node.allocatable.get(name, 0) for node in there) < size for name, size in requested.items()):
                continue
            narrowest = min(narrowest, len(chosen))
            if len(chosen) == 1 and len(there[0].group) > 1:
                continue
            if len(chosen) > 1 and any(node.assignments and node.group != chosen for node in there):
                continue
            if all(
                sum(node.free.get(name, 0) for node in there) + self.reusable_memory.get((chosen, name), 0) >= size
                for name, size in requested.items()
            ):
                found.append(chosen)
        return [Hint(chosen, preferred=len(chosen) == narrowest) for chosen in found]

    # Allocation.

    def _allocate_devices(self, container: Container, held: Held, name: str, count: int) -> None:
        near, taken = self.machine.devices[name], self.machine.taken_devices[name]
        affinity = held.hint.mask
        reusable = self.reusable_devices[name]
        got = sorted(reusable)[:count]
        free = sorted(near.keys() - taken)
        if len(got) + len(free) < count:
            raise RefusedError(ALLOCATION)
        if affinity is not None:
            free.sort(key=lambda device: (set(near[device]).isdisjoint(affinity), not near[device], device))
        devices = frozenset(got + free[: count - len(got)])
        taken |= devices
        if devices:
            held.devices[name] = devices
        init = container.kind is ContainerKind.INIT
        self.reusable_devices[name] = reusable | devices if init else reusable - devices

    def _allocate_cpus(self, container: Container, held: Held) -> None:
        machine, count = self.machine, self._cpus(container)
        available = machine.shared_cpus | self.reusable_cpus
        got: frozenset[int] = frozenset()
        if held.hint.mask is not None:
            near = frozenset().union(
                *(available & machine.topology.by_numa.get(node, frozenset()) for node in held.hint.mask)
            )
            got = take_cpus(machine.topology, near, min(count, len(near))) or frozenset()
        rest = take_cpus(machine.topology, available - got, count - len(got))
        if rest is None:
            raise RefusedError(ALLOCATION)
        held.cpus = got | rest
        machine.shared_cpus -= held.cpus
        init = container.kind is ContainerKind.INIT
        self.reusable_cpus = self.reusable_cpus | held.cpus if init else self.reusable_cpus - held.cpus

    def _allocate_memory(self, container: Container, held: Held) -> None:
        requested, memory = self._memory(container), self.machine.memory
        hint = held.hint
        mask, preferred = hint.mask, hint.preferred
        if mask is None:
            best = _best(self._memory_sets(requested))
            if best is None or (hint.preferred and not best.preferred):
                raise RefusedError(ALLOCATION)
            mask, preferred = best.mask, best.preferred
        assert mask is not None
        if any(sum(memory[node].free.get(name, 0) for node in mask) < size for name, size in requested.items()):
            best = _best([found for found in self._memory_sets(requested) if set(mask) <= set(found.mask or ())])
            if best is None or (preferred and not best.preferred):
                raise RefusedError(ALLOCATION)
            mask = best.mask
            assert mask is not None
        if len(mask) > 1 and any(memory[node].assignments and memory[node].group != mask for node in mask):
            raise RefusedError(ALLOCATION)
        for name, size in requested.items():
            held.memory.append(Block(mask, name, size))
            reusable = self.reusable_memory.get((mask, name), 0)
            self._take_memory(mask, name, max(size - reusable, 0))
        self._reuse_memory(container, mask, requested)

    def _take_memory(self, mask: Nodes, name: str, size: int) -> None:
        for node in mask:
            there = self.machine.memory[node]
            there.assignments += 1
            there.group = mask
            taken = min(size, there.free.get(name, 0))
            if taken:
                there.free[name] -= taken
                size -= taken

    def _reuse_memory(self, container: Container, mask: Nodes, requested: Mapping[str, int]) -> None:
        for name, size in requested.items():
            left = self.reusable_memory.get((mask, name), 0)
            init = container.kind is ContainerKind.INIT
            self.reusable_memory[mask, name] = max(left, size) if init else max(left - size, 0)
            unmet = size
            for earlier in self._init_blocks(mask, name):
                reused = min(unmet, earlier.size)
                earlier.size -= reused
                unmet -= reused

    def _init_blocks(self, mask: Nodes, name: str) -> Iterable[Block]:
        """Blocks of the init containers before the present container, which it may have reused."""
        for container, held in zip(self.pod.containers, self.held[:-1], strict=False):
            if container.kind is ContainerKind.INIT:
                yield from (block for block in held.memory if (block.affinity, block.kind) == (mask, name))


def _best(hints: Sequence[Hint]) -> Hint | None:
    """Preferred, then narrow, then low NUMA ids."""

    def rank(hint: Hint) -> tuple[bool, int, int]:
        mask = hint.mask or ()
        return not hint.preferred, len(mask), sum(1 << node for node in mask)

    return min(hints, key=rank, default=None)


def _cpu_topology(numa: Sequence[Mapping[str, Any]]) -> CPUTopology:
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
    return CPUTopology(core, at, socket)


def _cpu_list(text: str) -> frozenset[int]:
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def _memory(node: int, described: Mapping[str, Any]) -> Memory:
    sizes = {MEMORY: amount(MEMORY, described["memory"])}
    sizes |= {name: amount(name, size) for name, size in described.get("hugepages", {}).items()}
    return Memory(sizes, dict(sizes), 0, (node,))
