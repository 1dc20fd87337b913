"""Exporters of NodeResourceTopologies beside simulated kubelets: one process for each machine, as a DaemonSet's pods.

A process reads what it would read on a node: the kubelet's pod resources socket and configuration, and /sys. Its host
paths begin in its working folder.

    <machine>/host-sys              sysfs.py
    <machine>/host-var/lib/kubelet  -> state/<machine>, with the socket and the CPU manager's checkpoint
    <machine>/kubelet.yaml          the kubelet's configuration
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING

import yaml

from tests.cluster.nodes import TOPOLOGIES
from tests.cluster.ports import free_port
from tests.cluster.process import Process
from tests.neighbours.manifests import Manifests
from tests.neighbours.sysfs import write_sysfs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine
    from tests.neighbours.build import NeighbourFiles

NAMESPACE = "node-feature-discovery"
SLEEP_SECONDS = 3
"""The period of NFD's own overlay; it also scans when the kubelet writes a checkpoint."""


@contextlib.contextmanager
def nfd_topology_updater(
    plane: ControlPlane, files: NeighbourFiles, machines: Sequence[SimulatedMachine], state: Path
) -> Iterator[None]:
    """Run node-feature-discovery's topology updater on machines whose kubelets serve in `state`."""
    overlay = files.manifests / "deployment" / "overlays" / "topologyupdater"
    manifests = Manifests.rendered(plane, overlay).without("CustomResourceDefinition")  # it is installed
    started = []
    try:
        manifests.install(plane)
        kubeconfig = plane.service_account_kubeconfig(NAMESPACE, "nfd-topology-updater")
        for machine in machines:
            folder = state / f"{machine.name}-host"
            kubelet = folder / "host-var" / "lib" / "kubelet"
            write_sysfs(machine, folder / "host-sys")
            kubelet.parent.mkdir(parents=True)
            kubelet.symlink_to(state / machine.name)
            config = {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "topologyManagerPolicy": machine.policy,
                "topologyManagerScope": machine.scope,
            }
            (folder / "kubelet.yaml").write_text(yaml.safe_dump(config))
            name = f"nfd-{machine.name}"
            started.append(name)
            plane.guests[name] = Process(
                name,
                [
                    files.program,
                    f"-kubeconfig={kubeconfig}",
                    f"-kubelet-config-uri=file://{folder / 'kubelet.yaml'}",
                    "-podresources-socket=/proc/self/cwd/host-var/lib/kubelet/pod-resources/kubelet.sock",
                    f"-sleep-interval={SLEEP_SECONDS}s",
                    f"-port={free_port()}",
                    "-config=",
                ],
                plane.folder / f"{name}.log",
                env={"PATH": os.environ["PATH"], "NODE_NAME": machine.name, "KUBERNETES_NAMESPACE": NAMESPACE},
                cwd=folder,
            )
        plane.wait_for("its NodeResourceTopologies", partial(_published, plane, machines))
        yield
    finally:
        for name in started:
            plane.guests.pop(name).stop()
        manifests.remove(plane)


def _published(plane: ControlPlane, machines: Sequence[SimulatedMachine]) -> bool:
    """Whether each machine has its NodeResourceTopology. Raises `ProcessEndedError` if an exporter ended."""
    for machine in machines:
        plane.guests[f"nfd-{machine.name}"].require_running()
    names = {each["metadata"]["name"] for each in plane.api.get(TOPOLOGIES)["items"]}
    return names >= {machine.name for machine in machines}
