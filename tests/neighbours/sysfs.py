"""The part of /sys that tells an exporter the NUMA nodes and CPUs of a simulated machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.cluster.kubelets import SimulatedMachine

KIB_PER_GIB = 2**20
_CACHES = (("1", "Data"), ("1", "Instruction"), ("2", "Unified"), ("3", "Unified"))


def write_sysfs(machine: SimulatedMachine, folder: Path) -> None:
    """Write devices/system/node, bus/node/devices which links to it, and devices/system/cpu as lscpu reads it.

    As the simulated kubelet numbers them: CPUs on from one NUMA node to the next, the threads of a core side by side.
    Each NUMA node is a socket with one L3 cache; each core has its own L1 and L2 caches.
    """
    nodes = folder / "devices" / "system" / "node"
    distances = machine.description()["distances"]
    for number in range(machine.numa_nodes):
        node = nodes / f"node{number}"
        here = range(number * machine.cpus, (number + 1) * machine.cpus)
        for cpu in here:
            topology = node / f"cpu{cpu}" / "topology"
            topology.mkdir(parents=True)
            (topology / "core_id").write_text(f"{cpu // machine.threads_per_core}\n")
        (node / "distance").write_text(" ".join(map(str, distances[number])) + "\n")
        (node / "meminfo").write_text(f"Node {number} MemTotal: {machine.memory_gib * KIB_PER_GIB} kB\n")
        (node / "cpumap").write_text(_mask(here))
        (node / "hugepages").mkdir()
    (folder / "bus" / "node").mkdir(parents=True)
    (folder / "bus" / "node" / "devices").symlink_to(nodes)
    _write_cpus(machine, folder / "devices" / "system" / "cpu")


def _write_cpus(machine: SimulatedMachine, folder: Path) -> None:
    count = machine.numa_nodes * machine.cpus
    folder.mkdir()
    for name in ("possible", "present", "online"):
        (folder / name).write_text(f"0-{count - 1}\n")
    (folder / "smt").mkdir()
    (folder / "smt" / "active").write_text(f"{int(machine.threads_per_core > 1)}\n")
    for cpu in range(count):
        core, socket = cpu // machine.threads_per_core, cpu // machine.cpus
        of_core = _mask(range(core * machine.threads_per_core, (core + 1) * machine.threads_per_core))
        of_socket = _mask(range(socket * machine.cpus, (socket + 1) * machine.cpus))
        _write(
            folder / f"cpu{cpu}" / "topology",
            core_id=f"{core}\n",
            physical_package_id=f"{socket}\n",
            thread_siblings=of_core,
            core_siblings=of_socket,
        )
        for index, (level, kind) in enumerate(_CACHES):
            owner, shared = (socket, of_socket) if level == "3" else (core, of_core)
            cache = folder / f"cpu{cpu}" / "cache" / f"index{index}"
            _write(cache, level=f"{level}\n", type=f"{kind}\n", id=f"{owner}\n", shared_cpu_map=shared)


def _write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def _mask(cpus: Iterable[int]) -> str:
    """As Linux writes a set of CPUs: hexadecimal, in groups of 32 bits."""
    bits = sum(1 << cpu for cpu in cpus)
    words = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(bits.bit_length(), 1), 32)]
    return ",".join(reversed(words)) + "\n"
