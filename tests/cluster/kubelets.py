"""Machines with a simulated kubelet: pods bound to them are admitted by the kubelet's own code, run, fail and end.

One program, `kubelets`, simulates all of them (controlplane/kubelets): it registers the Nodes, watches the bound pods,
admits or rejects each as a kubelet would, and publishes each node's NodeResourceTopology some time after a change.
Nothing runs in a pod; one with the annotation `RUN_SECONDS` succeeds after that time.
Drivers of Dynamic Resource Allocation are simulated by their ResourceSlices alone: no claim is prepared.

Life cycle of `kubelets()`, a context manager:
1. The machines are written to a file and the program is started. It is ready when every Node is registered.
   Then the ResourceSlices are created.
2. Its journal, one JSON object per line, can be read at any time.
3. On exit the program ends, and its Nodes and NodeResourceTopologies are deleted. Pods must be gone before.
   ResourceSlices go with their Nodes.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.builders.devices import gpus, resource_slice
from tests.cluster.nodes import FAR, NEAR, NODES, delete_nodes
from tests.cluster.process import Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

RUN_SECONDS = "example.com/run-seconds"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
READY_SECONDS = 120.0  # 1,000 nodes are 2,000 requests; an idle machine needs 10
SUMMARY_SECONDS = 5.0


@dataclass(frozen=True)
class SimulatedMachine:
    """One machine of equal NUMA nodes."""

    name: str
    numa_nodes: int = 2
    cpus: int = 16
    """Logical CPUs of each NUMA node."""
    memory_gib: int = 64
    """Memory of each NUMA node that pods can allocate."""
    devices: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Resource name -> pieces near each NUMA node."""
    devices_anywhere: Mapping[str, int] = field(default_factory=dict)
    """Resource name -> pieces of which no NUMA node is known. No name is in both."""
    slices: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Driver of Dynamic Resource Allocation -> pieces near each NUMA node, which it publishes in a ResourceSlice."""
    hugepages: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Size of huge pages in MiB -> pages of each NUMA node, beyond its memory."""
    numa_per_socket: int = 1
    l3_cpus: int = 0
    """Logical CPUs that share an L3 cache; 0: all of a NUMA node do."""
    distances: Sequence[Sequence[int]] = ()
    """ACPI SLIT distances between the NUMA nodes; empty: NEAR to itself, FAR to all others."""
    policy: str = "single-numa-node"
    """The kubelet's Topology Manager policy, its scope and its options."""
    scope: str = "container"
    options: Mapping[str, str] = field(default_factory=dict)
    reserved_cpus: str = "0"
    """CPUs for the system, as a list such as `0,16`: they count in the capacity only. A static CPU manager demands
    one, as a kubelet does.
    """
    threads_per_core: int = 1
    cpu_manager: str = "static"
    """The CPU manager's policy, `static` or `none`, and its options, such as `full-pcpus-only`."""
    cpu_options: Mapping[str, str] = field(default_factory=dict)
    memory_manager: str = "Static"
    """The memory manager's policy, `Static` or `None`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    max_pods: int = 110

    @property
    def millicores(self) -> int:
        """What pods can allocate of its CPUs."""
        return 1000 * sum(self.free_cpus)

    @property
    def free_cpus(self) -> list[int]:
        """What pods can allocate of the CPUs of each NUMA node."""
        reserved = [cpu // self.cpus for cpu in cpu_list(self.reserved_cpus)]
        return [self.cpus - reserved.count(numa) for numa in range(self.numa_nodes)]

    def description(self) -> dict[str, Any]:
        """The machine as `kubelets` reads it."""
        ids = range(self.numa_nodes)
        distances = self.distances or [[NEAR if one == other else FAR for other in ids] for one in ids]
        return {
            "name": self.name,
            "labels": dict(self.labels),
            "policy": self.policy,
            "scope": self.scope,
            "options": dict(self.options),
            "cpuPolicy": self.cpu_manager,
            "cpuOptions": dict(self.cpu_options),
            "memoryPolicy": self.memory_manager,
            "reservedCPUs": self.reserved_cpus,
            "numa": [self._numa(numa) for numa in ids],
            "distances": [list(row) for row in distances],
            "devices": {resource: _devices(pieces) for resource, pieces in self.devices.items()}
            | {
                resource: {f"any-{number}": [] for number in range(count)}
                for resource, count in self.devices_anywhere.items()
            },
            "slices": {driver: self.published(driver) for driver in self.slices},
            "maxPods": self.max_pods,
        }

    def published(self, driver: str) -> list[dict[str, Any]]:
        """The devices of a driver as a ResourceSlice lists them."""
        return gpus(*(numa for numa, count in enumerate(self.slices[driver]) for _ in range(count)))

    def _numa(self, numa: int) -> dict[str, Any]:
        hugepages = {hugepages_of(size): f"{size * pages[numa]}Mi" for size, pages in self.hugepages.items()}
        return {
            "cpus": self.cpus,
            "threadsPerCore": self.threads_per_core,
            "memory": f"{self.memory_gib}Gi",
            "socket": numa // self.numa_per_socket,
            **({"l3CPUs": self.l3_cpus} if self.l3_cpus else {}),
            **({"hugepages": hugepages} if hugepages else {}),
        }


def hugepages_of(size: int) -> str:
    """The resource's name for huge pages of a size in MiB: hugepages-2Mi, hugepages-1Gi."""
    return f"hugepages-{size // 1024}Gi" if size % 1024 == 0 else f"hugepages-{size}Mi"


def even_machine(name: str, cpus: int = 16, numa_nodes: int = 2, **more: Any) -> SimulatedMachine:
    """A machine with so many CPUs for pods in each NUMA node; one more in each is the system's."""
    reserved = ",".join(str(numa * (cpus + 1)) for numa in range(numa_nodes))
    return SimulatedMachine(name, numa_nodes, cpus + 1, reserved_cpus=reserved, **more)


def cpu_list(text: str) -> list[int]:
    """The CPUs of a list such as `0-1,8`."""
    spans = [span.partition("-") for span in text.split(",") if span]
    return [cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)]


def _devices(pieces: Sequence[int]) -> dict[str, list[int]]:
    """The devices' ids, and the NUMA node each is near."""
    return {f"{numa}-{number}": [numa] for numa, count in enumerate(pieces) for number in range(count)}


class Kubelets:
    """The running program. Use `kubelets()`."""

    def __init__(self, plane: ControlPlane, process: Process) -> None:
        self._plane = plane
        self.process = process

    def journal(self) -> list[dict[str, Any]]:
        """All events so far: ready, admitted, rejected, static, ended, error, summary."""
        whole_lines = self.process.log.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in whole_lines if line.startswith(b"{")]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind so far."""
        return [event for event in self.journal() if event["event"] == kind]

    def _ready(self) -> bool:
        self.process.require_running()
        return b'"event":"ready"' in self.process.log.read_bytes()


@contextlib.contextmanager
def kubelets(
    plane: ControlPlane,
    machines: Sequence[SimulatedMachine],
    *,
    lag: float = 0.0,
    seed: int = 0,
    publisher: str = "rte",
    state: Path | None = None,
    manifests: Path | None = None,
) -> Iterator[Kubelets]:
    """Run the kubelets of these machines.

    lag: average seconds from a change on a machine to the NodeResourceTopology that shows it; each one is between 0.5
    and 1.5 times that. publisher: the form of the NodeResourceTopology, `rte`, `nfd` or `koordlet`;
    `none` leaves it to an exporter. state: a folder in which each machine gets one, with its kubelet's files and the
    socket of its pod resources API. manifests: a folder in which each machine may have one with its static pods (see
    `static_pod`); nothing in the API server shows them before the NodeResourceTopology does.
    """
    number = sum(name.startswith("kubelets") for name in plane.guests)
    name = f"kubelets-{number}" if number else "kubelets"
    description = plane.folder / f"{name}.json"
    description.write_text(json.dumps([machine.description() for machine in machines]))
    flags: dict[str, object] = {
        "kubeconfig": plane.kubeconfig,
        "machines": description,
        "lag": lag,
        "seed": seed,
        "publisher": publisher,
    }
    if state is not None:
        flags["state"] = state
    if manifests is not None:
        flags["manifests"] = manifests
    log = plane.folder / f"{name}.log"
    log.unlink(missing_ok=True)
    arguments = [f"--{flag}={value}" for flag, value in flags.items()]
    process = Process(name, [plane.assets["kubelets"], *arguments], log, grace_seconds=SUMMARY_SECONDS)
    plane.guests[name] = process
    running = Kubelets(plane, process)
    try:
        plane.wait_for(f"{name} ready", running._ready, READY_SECONDS)
        plane.api.in_parallel(partial(_publish, plane, machine) for machine in machines if machine.slices)
        yield running
    finally:
        process.stop()
        del plane.guests[name]
        delete_nodes(plane.api, [machine.name for machine in machines])


def _publish(plane: ControlPlane, machine: SimulatedMachine) -> None:
    """Create the ResourceSlices of a machine as a driver does: the Node owns them."""
    uid = plane.api.get(f"{NODES}/{machine.name}")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": machine.name, "uid": uid}
    for driver in machine.slices:
        raw = resource_slice(machine.name, machine.published(driver), driver=driver)
        raw["metadata"]["ownerReferences"] = [owner]
        plane.api.create(SLICES, raw)


def static_pod(folder: Path, machine: str, name: str, cpu: int) -> Path:
    """Start a static pod with so many exclusive CPUs on a machine; it ends when the returned file is deleted."""
    amounts = {"cpu": str(cpu), "memory": "64Mi"}
    container = {"name": "main", "image": "none", "resources": {"limits": amounts, "requests": amounts}}
    pod = {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container]}}
    (folder / machine).mkdir(parents=True, exist_ok=True)
    partial, file = folder / machine / f"{name}.partial", folder / machine / f"{name}.json"
    partial.write_text(json.dumps(pod))
    partial.rename(file)  # whole or not at all
    return file
