"""The hardware of a machine as Linux shows it: the files of /sys and /proc that kubelets, cAdvisor and exporters read.

As the simulated kubelet numbers them: CPUs on from one NUMA node to the next, the threads of a core side by side. Each
core has its own L1 and L2 caches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.cluster.kubelets import SimulatedMachine

KIB_PER_MIB = 2**10
KIB_PER_GIB = 2**20
RESERVED_KIB = 1
"""Memory of NUMA node 0 for the system, beyond what pods can allocate: a Static memory manager demands some."""
_CACHES = ((1, "Data", 32), (1, "Instruction", 32), (2, "Unified", 1024), (3, "Unified", 32768))
"""Level, type and size in KiB."""
_TUNABLES = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
"""What a kubelet writes into the running kernel when it starts: here it writes into files of the machine."""


def write_hardware(machine: SimulatedMachine, folder: Path) -> Mapping[str, Path]:
    """Write the files of a machine. Returns what is to be seen where: path of the machine -> file or folder."""
    write_sys(machine, folder / "sys")
    pages = {size: sum(pieces) for size, pieces in machine.hugepages.items()}
    _write_all(folder / "sys" / "kernel" / "mm" / "hugepages", _hugepages(pages))
    _write_all(
        folder / "proc",
        {
            "cpuinfo": "\n".join(_cpu_info(machine)),
            "meminfo": "\n".join(_memory_info(machine)),
            **{f"sys/{name}": "0" for name in _TUNABLES},
        },
    )
    hidden = (
        "sys/devices/system/cpu",
        "sys/devices/system/node",
        "sys/kernel/mm/hugepages",
        "proc/cpuinfo",
        "proc/meminfo",
        *(f"proc/sys/{name}" for name in _TUNABLES),
    )
    return {f"/{place}": folder / place for place in hidden}


def write_sys(machine: SimulatedMachine, folder: Path) -> None:
    """Write what /sys has of NUMA nodes and CPUs: devices/system, and the links of bus/node/devices."""
    cpus, nodes = (folder / "devices" / "system" / name for name in ("cpu", "node"))
    total = machine.numa_nodes * machine.cpus
    _write_all(
        cpus,
        {
            **dict.fromkeys(("online", "possible", "present"), _span(range(total))),
            "offline": "",
            "smt/active": int(machine.threads_per_core > 1),
            "smt/control": "on" if machine.threads_per_core > 1 else "notsupported",
        },
    )
    for cpu in range(total):
        _write_cpu(machine, cpu, cpus / f"cpu{cpu}")
    every = _span(range(machine.numa_nodes))
    _write_all(
        nodes, dict.fromkeys(("online", "possible", "has_cpu", "has_memory", "has_normal_memory", "has_generic"), every)
    )
    distances = machine.description()["distances"]
    for numa in range(machine.numa_nodes):
        here = range(numa * machine.cpus, (numa + 1) * machine.cpus)
        kib = _kib(machine, numa)
        node = nodes / f"node{numa}"
        _write_all(
            node,
            {
                "cpulist": _span(here),
                "cpumap": _mask(here),
                "distance": " ".join(map(str, distances[numa])),
                "meminfo": f"Node {numa} MemTotal:       {kib} kB\nNode {numa} MemFree:        {kib} kB",
            },
        )
        _write_all(node / "hugepages", _hugepages({size: pages[numa] for size, pages in machine.hugepages.items()}))
        for cpu in here:
            (node / f"cpu{cpu}").symlink_to(f"../../cpu/cpu{cpu}")
        bus = folder / "bus" / "node" / "devices"
        bus.mkdir(parents=True, exist_ok=True)
        (bus / node.name).symlink_to(f"../../../devices/system/node/{node.name}")


def _write_cpu(machine: SimulatedMachine, cpu: int, folder: Path) -> None:
    threads, on_socket, on_l3 = machine.threads_per_core, _on_socket(machine), machine.l3_cpus or machine.cpus
    core, socket, l3 = cpu // threads, cpu // on_socket, cpu // on_l3
    of_core = range(core * threads, (core + 1) * threads)
    of_socket = range(socket * on_socket, (socket + 1) * on_socket)
    _write_all(
        folder / "topology",
        {
            "core_id": core,
            "physical_package_id": socket,
            "die_id": 0,
            "thread_siblings": _mask(of_core),
            "thread_siblings_list": _span(of_core),
            "core_cpus": _mask(of_core),
            "core_cpus_list": _span(of_core),
            "core_siblings": _mask(of_socket),
            "core_siblings_list": _span(of_socket),
            "package_cpus": _mask(of_socket),
            "package_cpus_list": _span(of_socket),
        },
    )
    (folder / "online").write_text("1\n")
    for index, (level, kind, kib) in enumerate(_CACHES):
        owner, shared = (l3, range(l3 * on_l3, (l3 + 1) * on_l3)) if level == 3 else (core, of_core)
        _write_all(
            folder / "cache" / f"index{index}",
            {
                "level": level,
                "type": kind,
                "id": owner,
                "size": f"{kib}K",
                "shared_cpu_map": _mask(shared),
                "shared_cpu_list": _span(shared),
            },
        )


def _cpu_info(machine: SimulatedMachine) -> Iterator[str]:
    on_socket = _on_socket(machine)
    for cpu in range(machine.numa_nodes * machine.cpus):
        yield (
            f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\nmodel name\t: none\ncpu MHz\t\t: 2400.000\n"
            f"physical id\t: {cpu // on_socket}\nsiblings\t: {on_socket}\n"
            f"core id\t\t: {cpu // machine.threads_per_core}\n"
            f"cpu cores\t: {on_socket // machine.threads_per_core}\n"
        )


def _memory_info(machine: SimulatedMachine) -> Iterator[str]:
    whole = sum(_kib(machine, numa) for numa in range(machine.numa_nodes))
    for name in ("MemTotal", "MemFree", "MemAvailable"):
        yield f"{name}: {whole} kB"
    for name in ("Buffers", "Cached", "SwapTotal", "SwapFree", "Hugetlb"):
        yield f"{name}: 0 kB"
    for name in ("Total", "Free", "Rsvd", "Surp"):
        yield f"HugePages_{name}: 0"
    # Without this line resource-topology-exporter panics, and node-feature-discovery finds no NUMA node.
    yield "Hugepagesize: 2048 kB"


def _kib(machine: SimulatedMachine, numa: int) -> int:
    """The memory of a NUMA node, huge pages included."""
    hugepages = sum(size * KIB_PER_MIB * pages[numa] for size, pages in machine.hugepages.items())
    return machine.memory_gib * KIB_PER_GIB + hugepages + (RESERVED_KIB if numa == 0 else 0)


def _on_socket(machine: SimulatedMachine) -> int:
    return machine.cpus * machine.numa_per_socket


def _hugepages(pages: Mapping[int, int]) -> dict[str, object]:
    """The files of a folder `hugepages`. pages: size in MiB -> how many, all of them free."""
    return {
        f"hugepages-{size * KIB_PER_MIB}kB/{name}": count
        for size, count in pages.items()
        for name in ("nr_hugepages", "free_hugepages")
    }


def _write_all(folder: Path, files: Mapping[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        file = folder / name
        if "/" in name:
            file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


def _span(numbers: range) -> str:
    """As Linux writes a list of consecutive numbers: 0-15."""
    return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


def _mask(cpus: range) -> str:
    """As Linux writes a set of CPUs: hexadecimal, in groups of 32 bits."""
    bits = sum(1 << cpu for cpu in cpus)
    words = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(bits.bit_length(), 1), 32)]
    return ",".join(reversed(words))
