"""Three machines of the demo, each beside node-feature-discovery: with a real kubelet, or else a simulated one.

numa-0 numa-1 numa-2      [15 16] free CPUs per NUMA node: one is the system's
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.cluster.kubelets import SimulatedMachine, cpu_list, kubelets
from tests.cluster.real_kubelets import ImpossibleError, real_kubelets, require_possible
from tests.neighbours.exporters import EXPORTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

MACHINES = tuple(SimulatedMachine(f"numa-{number}", reserved_cpus="0") for number in range(3))


@dataclass(frozen=True)
class DemoMachines:
    """The running machines."""

    state: Path
    simulated: str
    """Why their kubelets are simulated; empty: they are real."""

    def exclusive_cpus(self, machine: str, uid: str) -> str:
        """The CPUs that the kubelet gave a pod of one container, by its CPU manager's checkpoint."""
        checkpoint = json.loads((self.state / machine / "cpu_manager_state").read_text())
        (cpus,) = checkpoint["entries"][uid].values()
        return str(cpus)


def numa_node_of(cpus: str) -> int:
    """The only NUMA node of these CPUs. Raises ValueError if there are several."""
    (numa,) = {cpu // MACHINES[0].cpus for cpu in cpu_list(cpus)}
    return numa


@contextlib.contextmanager
def demo_machines(plane: ControlPlane, tell: Callable[[str], None]) -> Iterator[DemoMachines]:
    """Run the machines within this context."""
    with contextlib.ExitStack() as stack:
        try:
            require_possible(len(MACHINES))
        except ImpossibleError as error:
            running = DemoMachines(plane.folder / "machines", str(error))
            stack.enter_context(kubelets(plane, MACHINES, publisher="none", state=running.state))
        else:
            running = DemoMachines(stack.enter_context(real_kubelets(plane, MACHINES)).state, "")
        stack.enter_context(EXPORTERS["nfd"](plane, MACHINES, running.state, tell))
        yield running
