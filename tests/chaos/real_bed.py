"""What the scenarios on real kubelets run on: as bed.py, but machines with real kubelets and real exporters.

    rack-0 ── n0 single-numa-node, n1 restricted, n2 best-effort      [16 16] free CPUs     node-feature-discovery
    rack-1 ── n3, n4, n5 single-numa-node                             [16 16]               resource-topology-exporter

resource-topology-exporter's own manifest says single-numa-node of each machine, whatever its kubelet does.
Pods without annotations would be rejected there, so the service aligns them, too (`manage: Aligned`).
"""

from __future__ import annotations

import contextlib
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.chaos.bed import VALUES, Bed
from tests.chaos.load import Pace
from tests.cluster.audit import Slot
from tests.cluster.control_plane import ControlPlane
from tests.cluster.hardware import write_sys
from tests.cluster.kubelets import SimulatedMachine, even_machine
from tests.cluster.mixed_load import racks_known
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL
from tests.cluster.real_kubelets import RealKubelets, real_kubelets, require_possible
from tests.cluster.webhook_process import local_webhook
from tests.neighbours.exporters import EXPORTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.cluster.process import Process

POLICIES = ("single-numa-node", "restricted", "best-effort", "single-numa-node", "single-numa-node", "single-numa-node")
MACHINES_PER_RACK = 3
RACK_EXPORTERS = ("nfd", "rte")
"""Of each rack."""
GIB = 2**30
REAL_VALUES: Mapping[str, Any] = {**VALUES, "settings": {**VALUES["settings"], "manage": "Aligned"}}


def machines() -> list[SimulatedMachine]:
    """The machines as they are at first."""
    return [
        even_machine(
            f"n{number}",
            policy=policy,
            labels={RACK_LABEL: f"rack-{number // MACHINES_PER_RACK}", ZONE_LABEL: "zone-0"},
        )
        for number, policy in enumerate(POLICIES)
    ]


def capacity_of(machine: SimulatedMachine) -> dict[Slot, Decimal]:
    """What each NUMA node of a machine offers to pods."""
    amounts = [{"cpu": cpus, "memory": machine.memory_gib * GIB} for cpus in machine.free_cpus]
    return {
        Slot(machine.name, numa, resource): Decimal(amount)
        for numa, each in enumerate(amounts)
        for resource, amount in each.items()
    }


class RealBed(Bed):
    """Use `RealBed.made()`."""

    # A unit every 1.5 s, of 7 CPUs on average, for 20 s each: 93 of 192 CPUs are in use.
    pace = Pace(longest_gap=3.0, grace=1)
    has_kubelets = True
    kubelets: RealKubelets
    machines: list[SimulatedMachine]

    @classmethod
    @contextlib.contextmanager
    def with_kubelets(cls, assets: Mapping[str, Path], tell: Callable[[str], None]) -> Iterator[RealBed]:
        """Start all of it. Everything ends with the context. Raises `ImpossibleError` where no real kubelet can run."""
        every = machines()
        require_possible(len(every))
        with contextlib.ExitStack() as stack:
            plane = stack.enter_context(ControlPlane.start(assets))
            plane.install_crds()
            kubelets = stack.enter_context(real_kubelets(plane, every))
            for rack, exporter in enumerate(RACK_EXPORTERS):
                here = every[rack * MACHINES_PER_RACK : (rack + 1) * MACHINES_PER_RACK]
                stack.enter_context(EXPORTERS[exporter](plane, here, kubelets.state, tell))
            stack.enter_context(racks_known(plane))
            webhook = local_webhook(plane, replicas=2, values=REAL_VALUES, client_certificates=False)
            bed = cls(plane, stack.enter_context(webhook), [])
            bed.kubelets, bed.machines = kubelets, every
            yield stack.enter_context(bed.watched())

    def capacity(self) -> dict[Slot, Decimal]:
        """What each NUMA node offers to pods."""
        return {slot: amount for machine in self.machines for slot, amount in capacity_of(machine).items()}

    def racks(self) -> dict[str, str]:
        """The rack of each machine."""
        return {machine.name: machine.labels[RACK_LABEL] for machine in self.machines}

    def exporter(self, machine: str) -> Process:
        """The exporter of a machine."""
        (process,) = (guest for name, guest in self.plane.guests.items() if name in _exporters_of(machine))
        return process

    def reinstall(self, machine: SimulatedMachine) -> None:
        """Put another machine in the place of the one of this name, and start its kubelet.

        Kubelet and exporter of the old one have ended.
        """
        self.kubelets.reinstall(machine)
        described = self.kubelets.state / f"{machine.name}-host" / "host-sys"
        shutil.rmtree(described)
        write_sys(machine, described)
        self.machines = [machine if each.name == machine.name else each for each in self.machines]


def _exporters_of(machine: str) -> set[str]:
    return {f"{exporter}-{machine}" for exporter in RACK_EXPORTERS}
