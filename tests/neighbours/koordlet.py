"""Koordinator's koordlet beside simulated kubelets, for the NodeResourceTopologies that it writes.

1. Its DaemonSet runs a pod on each machine, in which nothing runs.
2. For each pod a process runs here with the pod's environment and rights, on the machine's folder (hosts.py); lscpu,
   which it runs, sees that as /sys. It asks the kubelet for pods and configuration (kubelet_server.py).
3. Of its features only the report of NUMA nodes is on. The others change cgroups, of which it gets empty ones.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from tests.cluster.ports import free_port
from tests.cluster.process import Process
from tests.neighbours.daemon_pods import DaemonPods
from tests.neighbours.hosts import wait_until_published, write_host
from tests.neighbours.kubelet_server import kubelet_server
from tests.neighbours.manifests import Manifests
from tests.neighbours.mounts import mounted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine
    from tests.neighbours.build import NeighbourFiles

NAMESPACE = "koordinator-system"
_OBJECTS = (
    NAMESPACE,
    "koord-koordlet",
    "koord-koordlet-role",
    "koord-koordlet-rolebinding",
    "nodeslos.slo.koordinator.sh",
    "nodemetrics.slo.koordinator.sh",
    "devices.scheduling.koordinator.sh",
)
_CGROUPS = ("kubepods.slice", "kubepods.slice/kubepods-burstable.slice", "kubepods.slice/kubepods-besteffort.slice")


@contextlib.contextmanager
def koordlet(
    plane: ControlPlane, files: NeighbourFiles, machines: Sequence[SimulatedMachine], state: Path
) -> Iterator[None]:
    """Run it on machines whose kubelets serve in `state`."""
    every = Manifests.rendered(plane, files.manifests / "config" / "default")
    manifests = every.of_names(*_OBJECTS).without_crds_of(plane)
    pods = DaemonPods(plane, manifests)
    started = []
    try:
        manifests.install(plane)
        pods.start(machines)
        kubeconfig = plane.service_account_kubeconfig(NAMESPACE, "koord-koordlet")
        with contextlib.ExitStack() as stack:
            for machine in machines:
                name = f"koordlet-{machine.name}"
                folder = write_host(machine, state)
                stack.enter_context(kubelet_server(plane, machine, folder / "pki"))
                started.append(name)
                plane.guests[name] = Process(
                    name,
                    [*mounted({"/sys": folder / "host-sys"}), files.program, *_flags(folder), "--v=4"],
                    plane.folder / f"{name}.log",
                    env={
                        "PATH": os.environ["PATH"],
                        "KUBECONFIG": str(kubeconfig),
                        **pods.environment(machine.name),
                    },
                )
            wait_until_published(plane, machines, "koordlet")
            yield
    finally:
        for name in started:
            plane.guests.pop(name).stop()
        pods.stop()
        manifests.remove(plane)
        plane.wait_for("the end of its namespace", lambda: NAMESPACE not in _namespaces(plane))


def _namespaces(plane: ControlPlane) -> set[str]:
    return {each["metadata"]["name"] for each in plane.api.get("/api/v1/namespaces")["items"]}


def _flags(folder: Path) -> list[str]:
    """Its flags, with the folders that its DaemonSet mounts below the machine's."""
    for cgroup in _CGROUPS:
        (folder / "host-cgroup" / "cpu" / cgroup).mkdir(parents=True)
    for name in ("host-sys-fs", "host-run", "host-var-run", "metric-data", "prediction-checkpoints"):
        (folder / name).mkdir()
    return [
        f"-cgroup-root-dir={folder}/host-cgroup/",
        f"-sys-root-dir={folder}/host-sys/",
        f"-sys-fs-root-dir={folder}/host-sys-fs/",
        f"-run-root-dir={folder}/host-run/",
        f"-var-run-root-dir={folder}/host-var-run/",
        f"-var-lib-kubelet-dir={folder}/host-var/lib/kubelet/",
        f"-tsdb-path={folder}/metric-data/",
        f"-prediction-checkpoint-filepath={folder}/prediction-checkpoints",
        f"-runtime-hooks-addr={folder}/koordlet.sock",
        "-enable-nri-runtime-hook=false",
        f"-addr=127.0.0.1:{free_port()}",
        "-feature-gates=AllBeta=false,NodeTopologyReport=true",
    ]
