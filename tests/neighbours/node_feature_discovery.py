"""node-feature-discovery's topology updater beside kubelets: one process a machine, as a DaemonSet's pods.

Its host paths begin in its working folder, which hosts.py describes.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from tests.cluster.ports import free_port
from tests.cluster.process import Process
from tests.neighbours.hosts import wait_until_published, write_host
from tests.neighbours.manifests import Manifests

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
    plane: ControlPlane,
    files: NeighbourFiles,
    machines: Sequence[SimulatedMachine],
    state: Path,
    seconds: int = SLEEP_SECONDS,
) -> Iterator[None]:
    """Run node-feature-discovery's topology updater on machines whose kubelets serve in `state`."""
    overlay = files.manifests / "deployment" / "overlays" / "topologyupdater"
    manifests = Manifests.rendered(plane, overlay).without("CustomResourceDefinition")  # it is installed
    started = []
    try:
        manifests.install(plane)
        kubeconfig = plane.service_account_kubeconfig(NAMESPACE, "nfd-topology-updater")
        for machine in machines:
            folder = write_host(machine, state)
            name = f"nfd-{machine.name}"
            started.append(name)
            plane.guests[name] = Process(
                name,
                [
                    files.program,
                    f"-kubeconfig={kubeconfig}",
                    "-kubelet-config-uri=file:///proc/self/cwd/host-var/lib/kubelet/config.yaml",
                    "-podresources-socket=/proc/self/cwd/host-var/lib/kubelet/pod-resources/kubelet.sock",
                    f"-sleep-interval={seconds}s",
                    f"-port={free_port()}",
                    "-config=",
                ],
                plane.folder / f"{name}.log",
                env={"PATH": os.environ["PATH"], "NODE_NAME": machine.name, "KUBERNETES_NAMESPACE": NAMESPACE},
                cwd=folder,
            )
        wait_until_published(plane, machines, "nfd")
        yield
    finally:
        for name in started:
            plane.guests.pop(name).stop()
        manifests.remove(plane)
