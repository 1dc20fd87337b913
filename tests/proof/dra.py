"""The scenario `dra`: GPUs that drivers of Dynamic Resource Allocation publish, requested by claims, beside CPUs.

    each machine    NUMA node 0 [16 CPUs, 4 GPUs]    NUMA node 1 [16 CPUs, 4 GPUs]

Jobs of one pod come and go: without GPUs, with one, or with two of one NUMA node (`matchAttribute`). kube-scheduler
allocates the devices, and the kubelet gives CPUs and memory without asking where the devices are: neither aligns them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.builders.devices import DRIVER, NUMA, claim_template, device_class, match, request
from tests.cluster.claim_journal import DRA
from tests.cluster.kubelets import even_machine
from tests.proof.scenario import ProofScenario, drawing
from tests.proof.workload import Burst, ControllerKind, claim_template_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.cluster.claim_journal import Device
    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine


def dra(seed: int, machines: int = 12) -> ProofScenario:
    """Jobs for 8 to 14 seconds, so many that they request 80 % of all CPUs, and so 69 % of all GPUs."""
    like = even_machine("", slices={DRIVER: (4, 4)})
    fleet = [replace(like, name=f"gpu-{number:03}") for number in range(machines)]
    random = drawing(seed)
    seconds = 50.0
    # CPUs -> GPUs of a pod
    sizes, mean_run = {6: 0, 3: 1, 5: 2}, 11.0
    # By Little's law: CPUs in use = arrivals per second x mean size x mean run time.
    rate = 0.8 * sum(machine.millicores for machine in fleet) / 1000 / (sum(sizes) / len(sizes) * mean_run)
    workloads: list[Burst] = []
    at = 0.0
    while at < seconds:
        name, cpu = f"job-{len(workloads):04}", random.choice(list(sizes))
        amounts = {"cpu": str(cpu), "memory": f"{cpu}Gi"}
        run = random.uniform(mean_run - 3, mean_run + 3)
        workloads.append(Burst(name, 1, [amounts], kind=ControllerKind.JOB, at=at, run_seconds=run, gpus=sizes[cpu]))
        at += random.expovariate(rate)
    return ProofScenario("dra", fleet, workloads, seconds, 15.0, lag=3.0)


def create_claim_templates(plane: ControlPlane, scenario: ProofScenario, namespace: str) -> None:
    """What the claims of the workloads are made from; nothing for a scenario without claims."""
    if counts := {workload.gpus for workload in scenario.workloads if workload.gpus}:
        plane.api.create(f"{DRA}/deviceclasses", device_class())
        for count in counts:
            alike = [match(NUMA)] if count > 1 else []
            raw = claim_template(claim_template_of(count), [request(count=count)], constraints=alike)
            raw["metadata"]["namespace"] = namespace
            plane.api.create(f"{DRA}/namespaces/{namespace}/resourceclaimtemplates", raw)


@dataclass(frozen=True)
class Alignment:
    """The NUMA nodes of a pod's devices, and those of its CPUs."""

    pod: str
    node: str
    devices: frozenset[int]
    cpus: frozenset[int]

    @property
    def apart(self) -> bool:
        """Whether a device is on another NUMA node than the CPUs."""
        return not self.devices <= self.cpus


def alignments(
    devices: Mapping[str, Iterable[Device]],
    admissions: Iterable[Mapping[str, Any]],
    machines: Sequence[SimulatedMachine],
) -> list[Alignment]:
    """Those of the pods with devices and exclusive CPUs.

    devices: by the pods' uids. admissions: events of the kubelets' journal; real kubelets' are read from their CPU
    managers' checkpoints.
    """
    near = {
        (driver, machine.name, device["name"]): device["attributes"][NUMA]["int"]
        for machine in machines
        for driver in machine.slices
        for device in machine.published(driver)
    }
    found = []
    for admission in admissions:
        cpus = {int(numa) for container in admission["containers"] for numa in container.get("cpusPerNuma") or ()}
        places = {near[device] for device in devices.get(admission["uid"], ())}
        if cpus and places:
            found.append(Alignment(admission["pod"], admission["node"], frozenset(places), frozenset(cpus)))
    return found
