"""The faults of machines with real kubelets, one function each, as in faults.py."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.chaos.faults import DOWN_SECONDS, Stage
from tests.chaos.real_bed import RealBed, capacity_of
from tests.cluster.kubelets import even_machine
from tests.cluster.nodes import NODES, TOPOLOGIES
from tests.cluster.stubborn import done, stubbornly, until

if TYPE_CHECKING:
    import signal
    from typing import Any

VICTIMS = 2
"""Machines of which each fault ends the kubelet: of the six, others must stay for what is created meanwhile."""
KUBELET_SECONDS = 10.0
"""Until a supervisor has started a kubelet again that crashes in a loop: systemd's default is 0.1 s a time."""
DELETION_SECONDS = 20.0
EXPORTER_SECONDS = 60.0
ENDING_SECONDS = 60.0
NUMA_NODES, CPUS = 4, 8
"""Of the machine that comes back: as many CPUs as before, on twice as many NUMA nodes."""


def kubelets_ended(number: signal.Signals, stage: Stage) -> None:
    """Kubelets with running pods get a signal, and are started again; containers run on."""
    bed = _bed(stage)
    victims = _busy(stage)
    _end_kubelets(bed, victims, number)
    stage.last(KUBELET_SECONDS)
    _start_kubelets(bed, victims)
    _note_what_stayed(stage, victims)


def deleted_while_down(stage: Stage) -> None:
    """Kubelets crash, and the pods of their machines are deleted meanwhile: they stay until their kubelet is back.

    None is deleted by force: that would say that it has ended.
    """
    bed, api = _bed(stage), stage.bed.plane.api
    victims = _busy(stage)
    _end_kubelets(bed, victims, None)
    began = time.monotonic()
    stage.last(DOWN_SECONDS)
    deleted = []
    for uid, path in _pods_on(stage, victims):
        stage.journal.excused.add(uid)
        done(partial(api.delete, path))
        deleted.append(uid)
    stage.last(DELETION_SECONDS)
    _start_kubelets(bed, victims)
    until("the deleted pods to be gone", lambda: not {uid for uid, _ in _pods_on(stage, victims)} & set(deleted))
    stage.lasted = time.monotonic() - began  # until then their room is taken, and this load wants it
    stage.notes.append(f"{len(deleted)} pods were deleted while their kubelets were down")


def exporters_killed(stage: Stage) -> None:
    """All exporters are killed, and started again a minute later: until then no NodeResourceTopology changes."""
    bed = _bed(stage)
    exporters = [bed.exporter(machine.name) for machine in bed.machines]
    for exporter in exporters:
        exporter.kill()
    stage.last_all(EXPORTER_SECONDS)
    for exporter in exporters:
        exporter.start_again()


def node_replaced(stage: Stage) -> None:
    """A machine is deleted with its pods. One of its name with other NUMA nodes comes, whose exporter starts later.

    The NodeResourceTopology goes with its Node, as by nfd-gc or an owner reference of resource-topology-exporter.
    """
    bed, api = _bed(stage), stage.bed.plane.api
    (victim,) = stage.chance.sample(_busy(stage), 1)
    (before,) = (machine for machine in bed.machines if machine.name == victim)
    exporter = bed.exporter(victim)
    exporter.kill()
    _end_kubelets(bed, [victim], None)
    for collection in (NODES, TOPOLOGIES):
        done(partial(api.delete, f"{collection}/{victim}"))
    stage.last(DOWN_SECONDS)
    # As the garbage collector of pods does after a minute. A binding may have been under way when the node went.
    for uid, path in _pods_on(stage, [victim]):
        stage.journal.excused.add(uid)
        done(partial(api.delete, path, {"gracePeriodSeconds": 0}))
    until("its pods to be gone", lambda: not _pods_on(stage, [victim]))
    after = even_machine(victim, CPUS, NUMA_NODES, memory_gib=32, policy=before.policy, labels=before.labels)
    stage.journal.replace_machine(victim, capacity_of(after))
    bed.reinstall(after)
    until("its Node to be ready", bed.kubelets.ready)
    stage.last(DOWN_SECONDS)
    exporter.start_again()


def _bed(stage: Stage) -> RealBed:
    if not isinstance(stage.bed, RealBed):
        raise TypeError("this fault needs real kubelets")
    return stage.bed


def _busy(stage: Stage) -> list[str]:
    """Some single-numa-node machines with running pods; any if too few have one."""
    strict = [machine.name for machine in _bed(stage).machines if machine.policy == "single-numa-node"]
    held = {pod.node for pod in stage.journal.pods() if pod.since is not None and not pod.gone}
    busy = [name for name in strict if name in held]
    return sorted(stage.chance.sample(busy if len(busy) >= VICTIMS else strict, VICTIMS))


def _end_kubelets(bed: RealBed, machines: list[str], number: signal.Signals | None) -> None:
    """End kubelets by a signal; None: as a machine does that loses its power.

    What a kubelet has not forgotten by then it holds until it has admitted the first pods (docs/unknowns.md).
    """
    until("what ended to be forgotten", lambda: all(_has_forgotten(bed, machine) for machine in machines))
    for machine in machines:
        process = bed.kubelets.process(machine)
        if number is None:
            process.kill()
        else:
            os.kill(process.pid, number)
    for machine in machines:
        bed.kubelets.process(machine).wait(ENDING_SECONDS)


def _has_forgotten(bed: RealBed, machine: str) -> bool:
    """Whether its CPU manager, which looks every ten seconds, knows only pods that exist."""
    raws = bed.plane.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{machine}")["items"]
    there = {raw["metadata"]["uid"] for raw in raws}
    return (bed.kubelets.cpu_manager_state(machine).get("entries") or {}).keys() <= there


def _start_kubelets(bed: RealBed, machines: list[str]) -> None:
    for machine in machines:
        bed.kubelets.process(machine).start_again()


def _note_what_stayed(stage: Stage, machines: list[str]) -> None:
    held = sum(pod.node in machines and pod.since is not None and not pod.gone for pod in stage.journal.pods())
    stage.notes.append(f"{held} pods ran on {', '.join(machines)} when their kubelets came back")


def _pods_on(stage: Stage, machines: list[str]) -> list[tuple[str, str]]:
    """Uid and path of the load's pods that are bound to these machines."""
    raws: list[dict[str, Any]] = stubbornly(partial(stage.bed.plane.api.get, "/api/v1/pods"))["items"]
    run = {pod.uid for pod in stage.journal.pods()}
    return [
        (raw["metadata"]["uid"], f"/api/v1/namespaces/{raw['metadata']['namespace']}/pods/{raw['metadata']['name']}")
        for raw in raws
        if raw["spec"].get("nodeName") in machines and raw["metadata"]["uid"] in run
    ]
