"""What an exporter of NodeResourceTopologies reads on a node, as a folder for each machine.

<state>/<machine>-host/host-sys              tests/cluster/hardware.py
<state>/<machine>-host/host-var/lib/kubelet  -> <state>/<machine>, which its kubelet fills: the socket of its pod
                                             resources API, the CPU manager's checkpoint; and config.yaml
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import yaml

from tests.cluster.hardware import write_sys
from tests.cluster.nodes import TOPOLOGIES
from tests.cluster.real_kubelets import KUBELET_CONFIG, kubelet_config

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine


def write_host(machine: SimulatedMachine, state: Path) -> Path:
    """Write the folder of a machine whose kubelet serves in `state`."""
    folder = state / f"{machine.name}-host"
    kubelet = folder / "host-var" / "lib" / "kubelet"
    write_sys(machine, folder / "host-sys")
    kubelet.parent.mkdir(parents=True)
    kubelet.symlink_to(state / machine.name)
    if not (kubelet / KUBELET_CONFIG).exists():  # a real kubelet runs with its own
        (kubelet / KUBELET_CONFIG).write_text(yaml.safe_dump(kubelet_config(machine)))
    return folder


def wait_until_published(plane: ControlPlane, machines: Sequence[SimulatedMachine], exporter: str) -> None:
    """Wait until each machine has its NodeResourceTopology. exporter: processes are named `<exporter>-<machine>`.

    Raises `ProcessEndedError` if an exporter ended.
    """
    plane.wait_for("its NodeResourceTopologies", partial(_published, plane, machines, exporter))


def _published(plane: ControlPlane, machines: Sequence[SimulatedMachine], exporter: str) -> bool:
    for machine in machines:
        plane.guests[f"{exporter}-{machine.name}"].require_running()
    names = {each["metadata"]["name"] for each in plane.api.get(TOPOLOGIES)["items"]}
    return names >= {machine.name for machine in machines}
