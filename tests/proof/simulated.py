"""A scenario of the proof as `topology-webhook simulate` reads it: the cluster, and the workloads with their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.topologies import topology
from tests.cluster.nodes import RACK_LABEL
from tests.proof.workload import TOPOLOGY
from webhook.model.names import SIMULATE_AT, SIMULATE_RUN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubelets import SimulatedMachine
    from tests.proof.scenario import ProofScenario
    from tests.proof.workload import Burst


def cluster_of(scenario: ProofScenario) -> Iterator[dict[str, Any]]:
    """The nodes, their NodeResourceTopologies, and the Topology."""
    yield topology(name=TOPOLOGY, labels=(RACK_LABEL, "kubernetes.io/hostname"))
    for machine in scenario.machines:
        yield from _machine(machine)


def objects_of(scenario: ProofScenario) -> Iterator[dict[str, Any]]:
    """The workloads."""
    return map(_object, scenario.workloads)


def _machine(machine: SimulatedMachine) -> Iterator[dict[str, Any]]:
    devices = {name: sum(pieces) for name, pieces in machine.devices.items()}
    cpus, memory = sum(machine.free_cpus), machine.memory_gib * machine.numa_nodes
    labels = dict(machine.labels)
    yield node(name=machine.name, cpus=cpus, memory=f"{memory}Gi", devices=devices, labels=labels)
    zones = [
        zone(
            numa_id=numa,
            resources=[
                resource(name="cpu", capacity=machine.free_cpus[numa]),
                resource(name="memory", capacity=f"{machine.memory_gib}Gi"),
                *(resource(name=name, capacity=pieces[numa]) for name, pieces in machine.devices.items()),
            ],
        )
        for numa in range(machine.numa_nodes)
    ]
    yield nrt(node=machine.name, policy=machine.policy, scope=machine.scope, zones=zones)


def _object(workload: Burst) -> dict[str, Any]:
    body = workload.body()
    _, _, group, version, *_ = workload.path("default").split("/")
    times = {SIMULATE_AT: str(workload.at)}
    if workload.run_seconds is not None:
        times[SIMULATE_RUN_SECONDS] = str(workload.run_seconds)
    metadata = {**body["metadata"], "annotations": {**body["metadata"]["annotations"], **times}}
    return {"apiVersion": f"{group}/{version}", "kind": workload.kind.value, **body, "metadata": metadata}
