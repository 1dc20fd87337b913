"""A plain implementation of a kubelet's admission: one machine, one pod after the other, with the whole state.

It knows what an NRT hides: which NUMA nodes form memory groups, which CPUs and devices are taken. The conformance
runner replays sequences with it, and property tests compare the engine's predictions with its decisions.
Of equal devices it picks the first ids; the kubelet picks at random.

Source: kubernetes pkg/kubelet/cm (topology, device, cpu and memory managers with policy static).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final

from tests.conformance.hints import Hint, merge_hints
from tests.conformance.reference_asked import Asked
from tests.conformance.reference_cpus import take_cpus
from tests.conformance.reference_machine import Block, Held, Machine, Nodes
from webhook.formats.kubernetes.pod import Container, ContainerKind, Pod
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import CPU, MAX_AMOUNT

AFFINITY: Final = "TopologyAffinityError"
ALLOCATION: Final = "UnexpectedAdmissionError"
SMT: Final = "SMTAlignmentError"
MEMORY_MANAGER: Final = "[memorymanager]"
NOWHERE: Final = "no NUMA nodes with enough memory is available"


class RefusedError(Exception):
    """The pod is rejected; the argument is the kubelet's reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason)
        self.message = message
        """In the kubelet's words."""


def _failed(manager_says: str) -> RefusedError:
    return RefusedError(ALLOCATION, f"Allocate failed due to {manager_says}, which is unexpected")


def admit(machine: Machine, pod: Pod) -> list[Held]:
    """Admit the pod and return what its containers hold. Raises RefusedError and then allocates nothing."""
    admission = _ReferenceAdmission(machine, pod)
    machine.pods[pod.key] = admission.held
    try:
        admission.run()
    except RefusedError:
        machine.remove(pod.key)
        raise
    return admission.held


class _ReferenceAdmission:
    """One pod on one machine."""

    def __init__(self, machine: Machine, pod: Pod) -> None:
        self.machine = machine
        self.pod = pod
        self.asked = Asked(machine, pod)
        self.held: list[Held] = []
        self.reusable_cpus: frozenset[int] = frozenset()
        self.reusable_devices: dict[str, frozenset[str]] = {name: frozenset() for name in machine.devices}
        self.reusable_memory: dict[tuple[Nodes, str], int] = {}

    def run(self) -> None:
        together = None
        if self.machine.scope is Scope.POD and self.machine.policy is not NUMAPolicy.NONE:
            together = self._merged(self.asked.pod_cpus(), self.asked.pod_memory(), self.asked.pod_devices())
        for container in self.pod.containers:
            hint = together
            if hint is None:
                hint = self._merged(
                    self.asked.cpus(container), self.asked.memory(container), self.asked.devices(container)
                )
            held = Held(container.name, hint)
            self.held.append(held)
            for name, count in self.asked.devices(container).items():
                self._allocate_devices(container, held, name, count)
            if self.asked.cpus(container):
                self._allocate_cpus(container, held)
            if self.asked.memory(container):
                self._allocate_memory(container, held)

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
            raise RefusedError(AFFINITY, "Resources cannot be allocated with Topology locality")
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
        needed = count - len(got)
        if len(free) < needed:
            raise _failed(
                f"requested number of devices unavailable for {name}. Requested: {needed}, Available: {len(free)}"
            )
        if affinity is not None:
            free.sort(key=lambda device: (set(near[device]).isdisjoint(affinity), not near[device], device))
        devices = frozenset(got + free[:needed])
        taken |= devices
        if devices:
            held.devices[name] = devices
        init = container.kind is ContainerKind.INIT
        self.reusable_devices[name] = reusable | devices if init else reusable - devices

    def _allocate_cpus(self, container: Container, held: Held) -> None:
        machine, count = self.machine, self.asked.cpus(container)
        available = machine.shared_cpus | self.reusable_cpus
        got: frozenset[int] = frozenset()
        if held.hint.mask is not None:
            near = frozenset().union(
                *(available & machine.topology.by_numa.get(node, frozenset()) for node in held.hint.mask)
            )
            got = take_cpus(machine.topology, near, min(count, len(near))) or frozenset()
        rest = take_cpus(machine.topology, available - got, count - len(got))
        if rest is None:
            raise _failed(
                f"not enough cpus available to satisfy request: requested={count - len(got)}, "
                f"available={len(available - got)}"
            )
        held.cpus = got | rest
        machine.shared_cpus -= held.cpus
        init = container.kind is ContainerKind.INIT
        self.reusable_cpus = self.reusable_cpus | held.cpus if init else self.reusable_cpus - held.cpus

    def _allocate_memory(self, container: Container, held: Held) -> None:
        requested, memory = self.asked.memory(container), self.machine.memory
        hint = held.hint
        if any(size >= MAX_AMOUNT for size in requested.values()):
            raise _failed(f"{MEMORY_MANAGER} failed to represent quantity as int64")
        mask, preferred = hint.mask, hint.preferred
        if mask is None:
            best = _best(self._memory_sets(requested))
            if best is None:
                raise _failed(f"{MEMORY_MANAGER} failed to get the default NUMA affinity, {NOWHERE}")
            if hint.preferred and not best.preferred:
                raise _failed(f"{MEMORY_MANAGER} failed to find the default preferred hint")
            mask, preferred = best.mask, best.preferred
        assert mask is not None
        if any(sum(memory[node].free.get(name, 0) for node in mask) < size for name, size in requested.items()):
            best = _best([found for found in self._memory_sets(requested) if set(mask) <= set(found.mask or ())])
            if best is None:
                raise _failed(f"{MEMORY_MANAGER} failed to find NUMA nodes to extend the current topology hint")
            if preferred and not best.preferred:
                raise _failed(f"{MEMORY_MANAGER} failed to find the extended preferred hint")
            mask = best.mask
            assert mask is not None
        if len(mask) > 1 and any(memory[node].assignments and memory[node].group != mask for node in mask):
            raise _failed(f"{MEMORY_MANAGER} preferred hint violates NUMA node allocation")
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
        """Blocks of the init containers before this container, which it may have reused."""
        for container, held in zip(self.pod.containers, self.held[:-1], strict=False):
            if container.kind is ContainerKind.INIT:
                yield from (block for block in held.memory if (block.affinity, block.kind) == (mask, name))


def _best(hints: Sequence[Hint]) -> Hint | None:
    """Preferred, then narrow, then low NUMA ids."""

    def rank(hint: Hint) -> tuple[bool, int, int]:
        mask = hint.mask or ()
        return not hint.preferred, len(mask), sum(1 << node for node in mask)

    return min(hints, key=rank, default=None)


@lru_cache(maxsize=256)
def _sets(nodes: Nodes) -> tuple[Nodes, ...]:
    """All sets of the NUMA nodes, narrow ones first, then by id."""
    return tuple(chosen for width in range(1, len(nodes) + 1) for chosen in combinations(nodes, width))
