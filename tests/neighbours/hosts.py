"""What an exporter of NodeResourceTopologies reads on a node, as a folder for each simulated machine.

<state>/<machine>-host/host-sys              sysfs.py
<state>/<machine>-host/host-var/lib/kubelet  -> <state>/<machine>, which the simulated kubelet fills: the socket of
                                             its pod resources API, the CPU manager's checkpoint; and config.yaml
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.nodes import TOPOLOGIES
from tests.neighbours.sysfs import write_sysfs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine


def write_host(machine: SimulatedMachine, state: Path) -> Path:
    """Write the folder of a machine whose kubelet serves in `state`."""
    folder = state / f"{machine.name}-host"
    kubelet = folder / "host-var" / "lib" / "kubelet"
    write_sysfs(machine, folder / "host-sys")
    kubelet.parent.mkdir(parents=True)
    kubelet.symlink_to(state / machine.name)
    (kubelet / "config.yaml").write_text(yaml.safe_dump(kubelet_config(machine)))
    return folder


def kubelet_config(machine: SimulatedMachine) -> dict[str, Any]:
    """The KubeletConfiguration of a machine, as far as it concerns NUMA nodes."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": machine.cpu_manager,
        "cpuManagerPolicyOptions": dict(machine.cpu_options),
        "memoryManagerPolicy": "Static",
        "reservedSystemCPUs": machine.reserved_cpus,
        "topologyManagerPolicy": machine.policy,
        "topologyManagerScope": machine.scope,
    }


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
