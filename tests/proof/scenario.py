"""What one run consists of: machines, and workloads with their times.

A scenario follows from its seed alone, so that two runs of it get the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tests.cluster.nodes import RACK_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.cluster.kubelets import SimulatedMachine
    from tests.neighbours.node_groups import GroupOfMachines
    from tests.proof.workload import Burst


def drawing(seed: int) -> Random:
    """The random generator of a scenario."""
    return Random(seed)  # noqa: S311 - to be repeatable is the point


@dataclass(frozen=True)
class PlantedPod:
    """A static pod that comes during a run. Nothing in the API server shows it before the machine's exporter does."""

    machine: str
    name: str
    cpu: int
    """Exclusive CPUs of one NUMA node."""
    at: float
    """Seconds after the start of the run."""


@dataclass(frozen=True)
class RealExporter:
    """The exporter of another project on each machine: only it writes their NodeResourceTopologies."""

    name: str
    """Of tests/neighbours/exporters.py."""
    seconds: int
    """Its period. It also publishes soon after the kubelet has written a checkpoint."""


@dataclass(frozen=True)
class ProofScenario:
    """One line of the table, run twice: without and with the webhook."""

    name: str
    machines: Sequence[SimulatedMachine]
    workloads: Sequence[Burst]
    seconds: float
    """How long the run is watched from the first workload on."""
    steady_from: float
    """Second from which utilisation is measured: when all that can run had time to start."""
    lag: float = 1.0
    """Seconds, on average, from a change on a node to the NodeResourceTopology that shows it."""
    beside: str = ""
    """The component of another project that runs, too (tests/neighbours/beside.py); empty: none."""
    planted: Sequence[PlantedPod] = ()
    """Static pods of the machines."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of the chart that it is run with, unless other values are given."""
    exporter: RealExporter | None = None
    """Beside a real kubelet on each machine; None: the kubelets are simulated and write the topologies themselves."""
    group: GroupOfMachines | None = None
    """Machines that the Cluster Autoscaler adds to, instead of `machines`; None: there are none."""

    @property
    def millicores(self) -> int:
        """The CPUs that all machines can allocate; of a group, those of the machines that it has at first."""
        at_first = 0 if self.group is None else self.group.minimum * self.group.sample.millicores
        return sum(machine.millicores for machine in self.machines) + at_first

    @property
    def has_claims(self) -> bool:
        """Whether pods request devices by ResourceClaims."""
        return any(workload.gpus for workload in self.workloads)

    @property
    def racks(self) -> Mapping[str, str]:
        """The rack of each node that is in one."""
        return {machine.name: machine.labels[RACK_LABEL] for machine in self.machines if RACK_LABEL in machine.labels}
