"""The part of /sys that tells an exporter the NUMA nodes of a simulated machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.kubelets import SimulatedMachine

KIB_PER_GIB = 2**20


def write_sysfs(machine: SimulatedMachine, folder: Path) -> None:
    """Write devices/system/node, and bus/node/devices which links to it.

    As the simulated kubelet numbers them: CPUs on from one NUMA node to the next, the threads of a core side by side.
    """
    nodes = folder / "devices" / "system" / "node"
    distances = machine.description()["distances"]
    for number in range(machine.numa_nodes):
        node = nodes / f"node{number}"
        for cpu in range(number * machine.cpus, (number + 1) * machine.cpus):
            topology = node / f"cpu{cpu}" / "topology"
            topology.mkdir(parents=True)
            (topology / "core_id").write_text(f"{cpu // machine.threads_per_core}\n")
        (node / "distance").write_text(" ".join(map(str, distances[number])) + "\n")
        (node / "meminfo").write_text(f"Node {number} MemTotal: {machine.memory_gib * KIB_PER_GIB} kB\n")
        (node / "hugepages").mkdir()
    (folder / "bus" / "node").mkdir(parents=True)
    (folder / "bus" / "node" / "devices").symlink_to(nodes)
