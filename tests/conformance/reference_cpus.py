"""Which CPUs a kubelet's static CPU manager takes: packed, CPU by CPU, on a machine whose cores and sockets are known.

1. Whole free NUMA nodes (or sockets first, where a socket has several), while that many are still needed.
2. Whole free sockets (or NUMA nodes), likewise.
3. Whole free cores. 4. Single threads.
At each step the places with the fewest free CPUs come first.
Source: kubernetes pkg/kubelet/cm/cpumanager/cpu_assignment.go.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CPUMap:
    """Where every CPU is: cpu -> core, NUMA node, socket."""

    core: Mapping[int, int]
    numa: Mapping[int, int]
    socket: Mapping[int, int]
    by_numa: Mapping[int, frozenset[int]] = field(init=False)

    def __post_init__(self) -> None:
        by_numa = defaultdict(set)
        for cpu, numa in self.numa.items():
            by_numa[numa].add(cpu)
        object.__setattr__(self, "by_numa", {numa: frozenset(cpus) for numa, cpus in by_numa.items()})


def take_cpus(topology: CPUMap, available: frozenset[int], needed: int) -> frozenset[int] | None:
    """`needed` of the available CPUs; None if there are fewer."""
    if needed > len(available):
        return None
    if needed == 0:
        return frozenset()
    taking = _Taking(topology, set(available), needed)
    for step in (*taking.wholes(), taking.cores, taking.threads):
        if taking.needed:
            step()
    return frozenset(taking.taken)


@dataclass
class _Taking:
    topology: CPUMap
    left: set[int]
    needed: int
    taken: set[int] = field(default_factory=set)

    def wholes(self) -> tuple[Callable[[], None], Callable[[], None]]:
        sockets = set(self.topology.socket.values())
        if len(sockets) >= len(self.topology.by_numa):
            return self.numa_nodes, self.sockets
        return self.sockets, self.numa_nodes

    def numa_nodes(self) -> None:
        for numa in self._sorted_numa_nodes():
            whole = self.topology.by_numa[numa]
            if whole <= self.left and self.needed >= len(whole):
                self._take(whole)

    def sockets(self) -> None:
        # The kubelet counts on all sockets being of one size.
        size = len(self.topology.socket) // len(set(self.topology.socket.values()))
        for socket in self._sorted_sockets():
            whole = {cpu for cpu, at in self.topology.socket.items() if at == socket}
            free = whole & self.left
            if len(free) == size and self.needed >= len(whole):
                self._take(whole)

    def cores(self) -> None:
        size = len(self.topology.core) // len(set(self.topology.core.values()))
        for core in self._sorted_cores():
            whole = {cpu for cpu, at in self.topology.core.items() if at == core}
            if len(whole & self.left) == size and self.needed >= len(whole):
                self._take(whole)

    def threads(self) -> None:
        for core in self._sorted_cores():
            for cpu in sorted(cpu for cpu in self.left if self.topology.core[cpu] == core):
                self._take({cpu})
                if not self.needed:
                    return

    def _take(self, cpus: Iterable[int]) -> None:
        cpus = set(cpus)
        self.taken |= cpus
        self.left -= cpus
        self.needed -= len(cpus)

    def _by_free(self, place: Mapping[int, int], within: Iterable[int]) -> list[int]:
        free: dict[int, int] = defaultdict(int)
        for cpu in within:
            free[place[cpu]] += 1
        return sorted(free, key=lambda at: (free[at], at))

    def _sorted_sockets(self) -> list[int]:
        topology = self.topology
        if self._numa_first:
            return [
                socket
                for numa in self._by_free(topology.numa, self.left)
                for socket in self._by_free(topology.socket, self.left & topology.by_numa[numa])
            ]
        return self._by_free(topology.socket, self.left)

    def _sorted_numa_nodes(self) -> list[int]:
        topology = self.topology
        if self._numa_first:
            return self._by_free(topology.numa, self.left)
        return [
            numa
            for socket in self._by_free(topology.socket, self.left)
            for numa in self._by_free(topology.numa, {cpu for cpu in self.left if topology.socket[cpu] == socket})
        ]

    def _sorted_cores(self) -> list[int]:
        topology = self.topology
        if self._numa_first:
            groups = [{cpu for cpu in self.left if topology.socket[cpu] == socket} for socket in self._sorted_sockets()]
        else:
            groups = [self.left & topology.by_numa[numa] for numa in self._sorted_numa_nodes()]
        return [core for group in groups for core in self._by_free(topology.core, group)]

    @property
    def _numa_first(self) -> bool:
        return len(set(self.topology.socket.values())) >= len(self.topology.by_numa)
