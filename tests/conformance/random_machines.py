"""Random machines and what happens on each, from a seed alone: no answer of a kubelet changes what comes next.

A machine is the same whatever number of machines is drawn beside it. Options are those that its Kubernetes version has
without alpha gates.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.kubelets import SimulatedMachine, hugepages_of
from tests.cluster.nodes import FAR, NEAR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Version = tuple[int, int]

GPU, NIC = "example.com/gpu", "example.com/nic"
POLICIES: Final = ("single-numa-node", "restricted", "best-effort", "none")
# Without the option max-allowable-numa-nodes a kubelet with more does not start.
_MOST_NUMA_NODES: Final = 8
# A Topology Manager merges every combination of hints: with 8 NUMA nodes 255 for each of CPUs, memory and a device are
# 17 million, which takes seconds. Only single-numa-node drops most of them first.
_MANY_NUMA_NODES: Final = 5

# Option -> the first version that has it, beta or stable.
# Source: kubernetes pkg/kubelet/cm/cpumanager/policy_options.go.
_CPU_OPTIONS: Final[Mapping[str, Version]] = {
    "full-pcpus-only": (1, 22),
    "distribute-cpus-across-numa": (1, 33),
    "strict-cpu-reservation": (1, 33),
    "prefer-align-cpus-by-uncorecache": (1, 34),
}
# The kubelet refuses to start with both.
_EXCLUSIVE: Final = {"distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"}
# Source: pkg/kubelet/cm/topologymanager/policy_options.go.
_CLOSEST: Final = "prefer-closest-numa-nodes"
_MAX_ALLOWABLE: Final = "max-allowable-numa-nodes"
_MAX_ALLOWABLE_SINCE: Final[Version] = (1, 33)
_POD_LEVEL_SINCE: Final[Version] = (1, 34)
# Older ones also hint at NUMA nodes without devices, as the simulated kubelet does not: with best-effort, whose hints
# need not be equal, they choose other NUMA nodes (docs/unknowns.md). Source: devicemanager, deviceNUMANodes.
_HINTS_WHERE_DEVICES_ARE_SINCE: Final[Version] = (1, 36)
# Older ones give out memory of NUMA nodes that others hold memory of alone, if the Topology Manager's hint is for other
# resources, and may then not start again (likewise). Source: memorymanager, isAffinityViolatingNUMAAllocations.
_ONE_KIND_OF_ALLOCATION_SINCE: Final[Version] = (1, 33)
# Newer ones leave alone what has its CPUs when they start again. Source: cpumanager, enforceSMTAlignment.
_CORES_ARE_KEPT_SINCE: Final[Version] = (1, 37)


@dataclass(frozen=True)
class Step:
    """What happens before a pod comes to the machine, and the pod.

    Not both at once: what the deleted pod held would still be in the checkpoints, or not, by the seconds that passed.
    """

    pod: Mapping[str, Any]
    remove: str = ""
    """The name of a pod that is deleted before it; empty: none."""
    restart: str = ""
    """The signal that ends the kubelet before it, which is then started again; empty: none."""


@dataclass(frozen=True)
class Play:
    """A machine and what happens on it, in order."""

    machine: SimulatedMachine
    steps: Sequence[Step]


def plays(seed: int, machines: int, pods: int, version: Version) -> list[Play]:
    """So many machines, to each of which so many pods come. version: of Kubernetes."""
    return [_play(Random(f"{seed} {number}"), number, seed, pods, version) for number in range(machines)]  # noqa: S311


def _play(random: Random, number: int, seed: int, pods: int, version: Version) -> Play:
    # In turn, so that a few machines have all policies.
    machine = _machine(random, f"m{number}", POLICIES[(seed + number) % len(POLICIES)], version)
    # The simulated kubelet is an older one, and would start again with other pods.
    unlike = version >= _CORES_ARE_KEPT_SINCE and "full-pcpus-only" in machine.cpu_options
    steps: list[Step] = []
    earlier: list[str] = []
    for index in range(pods):
        pod = _pod(random, machine, f"{machine.name}-p{index}", version)
        remove = restart = ""
        if index and random.random() < 0.08 and not unlike:
            restart = random.choice(("SIGKILL", "SIGTERM"))
        elif earlier and random.random() < 0.6:
            remove = earlier.pop(random.randrange(len(earlier)))
        steps.append(Step(pod, remove, restart))
        earlier.append(pod["metadata"]["name"])
    return Play(machine, steps)


def _machine(random: Random, name: str, policy: str, version: Version) -> SimulatedMachine:
    options: dict[str, str] = {}
    numa_nodes = random.choice((1, 2, 2, 2, 3, 4, 4, 8, 10))
    if version >= _MAX_ALLOWABLE_SINCE:
        if numa_nodes > _MOST_NUMA_NODES or random.random() < 0.1:
            options[_MAX_ALLOWABLE] = str(max(numa_nodes, _MOST_NUMA_NODES) + random.choice((0, 2)))
    else:
        numa_nodes = min(numa_nodes, _MOST_NUMA_NODES)
    if random.random() < 0.4:
        options[_CLOSEST] = "true"
    threads = random.choice((1, 2))
    cores = random.choice((2, 3, 4) if numa_nodes > _MANY_NUMA_NODES else (3, 4, 6, 8))
    static = random.random() < 0.85
    few_hints = numa_nodes > _MANY_NUMA_NODES and policy != "single-numa-node"
    gpus = tuple(random.choice((0, 1, 2, 3)) for _ in range(numa_nodes))
    with_gpus = any(gpus) and random.random() < 0.6 and not few_hints
    if policy == "best-effort" and version < _HINTS_WHERE_DEVICES_ARE_SINCE:
        with_gpus = False
    memory_is_mixed = policy in {"best-effort", "restricted"} and version < _ONE_KIND_OF_ALLOCATION_SINCE
    return SimulatedMachine(
        name,
        numa_nodes=numa_nodes,
        cpus=cores * threads,
        threads_per_core=threads,
        memory_gib=random.choice((4, 8, 16)),
        numa_per_socket=2 if numa_nodes % 2 == 0 and random.random() < 0.4 else 1,
        l3_cpus=cores * threads // 2 if cores % 2 == 0 and random.random() < 0.5 else 0,
        hugepages=_hugepages(random, numa_nodes) if random.random() < 0.35 and not few_hints else {},
        distances=_distances(random, numa_nodes),
        devices={GPU: gpus} if with_gpus else {},
        devices_anywhere={NIC: random.randint(1, 4)} if random.random() < 0.4 else {},
        policy=policy,
        scope=random.choice(("container", "pod")),
        options=options,
        reserved_cpus=_reserved(random, numa_nodes, cores * threads, threads) if static else "",
        cpu_manager="static" if static else "none",
        cpu_options=_cpu_options(random, version) if static else {},
        memory_manager="Static" if random.random() < 0.75 and not memory_is_mixed else "None",
    )


def _hugepages(random: Random, numa_nodes: int) -> dict[int, list[int]]:
    """512 to 1024 MiB of small pages on each NUMA node, or up to 2 large ones."""
    if random.random() < 0.5:
        return {2: [random.choice((256, 512)) for _ in range(numa_nodes)]}
    return {1024: [random.choice((1, 2)) for _ in range(numa_nodes)]}


def _distances(random: Random, numa_nodes: int) -> list[list[int]]:
    distances = [[NEAR] * numa_nodes for _ in range(numa_nodes)]
    for one in range(numa_nodes):
        for other in range(one):
            distances[one][other] = distances[other][one] = random.choice((12, FAR, 32))
    return distances


def _reserved(random: Random, numa_nodes: int, cpus: int, threads: int) -> str:
    """Whole cores: of the first NUMA node, of each, or two of the last."""
    firsts = random.choice(([0], [numa * cpus for numa in range(numa_nodes)], [(numa_nodes - 1) * cpus]))
    return ",".join(f"{first}-{first + threads - 1}" if threads > 1 else str(first) for first in firsts)


def _cpu_options(random: Random, version: Version) -> dict[str, str]:
    chosen = [option for option, since in _CPU_OPTIONS.items() if version >= since and random.random() < 0.3]
    if set(chosen) >= _EXCLUSIVE:
        chosen.remove(random.choice(sorted(_EXCLUSIVE)))
    return dict.fromkeys(chosen, "true")


def _pod(random: Random, machine: SimulatedMachine, name: str, version: Version) -> dict[str, Any]:
    """A pod of about the size of a NUMA node. The runtime ends containers at once whose name begins with `init`."""
    kind = random.choice(("guaranteed",) * 7 + ("burstable", "best-effort"))
    containers = [
        _container(random, machine, f"app-{number}", kind) for number in range(random.choice((1, 1, 1, 1, 2, 2, 3)))
    ]
    inits = []
    for number in range(random.choice((0, 0, 0, 0, 1, 1, 2))):
        sidecar = random.random() < 0.4
        inits.append(_container(random, machine, f"{'side' if sidecar else 'init'}-{number}", kind))
        if sidecar:
            inits[-1]["restartPolicy"] = "Always"
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": containers,
    }
    if inits:
        spec["initContainers"] = inits
    elif version >= _POD_LEVEL_SINCE and random.random() < 0.08:
        amounts = {"cpu": str(_cpus(random, machine)), "memory": "1Gi"}
        spec["resources"] = {"limits": amounts, "requests": amounts}
        spec["containers"] = [{"name": "app-0", "image": "none"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _container(random: Random, machine: SimulatedMachine, name: str, kind: str) -> dict[str, Any]:
    amounts: dict[str, str] = {}
    devices: dict[str, str] = {}
    if kind != "best-effort":
        amounts["cpu"] = random.choice(("500m", "1500m")) if random.random() < 0.12 else str(_cpus(random, machine))
        amounts["memory"] = f"{machine.memory_gib * random.choice((1, 1, 1, 1, 1, 2, 2, 3, 4, 6, 8, 10)) * 128}Mi"
    for resource in (*machine.devices, *machine.devices_anywhere):
        if random.random() < 0.4:
            devices[resource] = str(random.choice((1, 1, 2, 3)))
    if kind == "guaranteed":
        for size, pages in machine.hugepages.items():
            if random.random() < 0.4:
                devices[hugepages_of(size)] = f"{size * random.choice((1, max(pages) // 2 or 1, max(pages)))}Mi"
    limits = {**amounts, **devices} if kind == "guaranteed" else devices
    return {
        "name": name,
        "image": "none",
        "resources": {"limits": limits, "requests": {**amounts, **devices}},
    }


def _cpus(random: Random, machine: SimulatedMachine) -> int:
    """From a core to more than a NUMA node has; rarely parts of cores."""
    cores = machine.cpus // machine.threads_per_core
    whole = random.choice((1, 1, 1, 2, 2, cores // 2, cores // 2, cores - 1, cores, cores + 2))
    whole *= machine.threads_per_core
    return whole - 1 if whole > 1 and random.random() < 0.15 else whole
