"""resource-topology-exporter beside kubelets, as its own manifest installs it.

1. Its DaemonSet runs a pod on each machine, in which nothing runs.
2. For each pod a process runs here, with the arguments, environment and rights of the pod. It sees the machine's folder
   (hosts.py) as its /sys, and the configuration from the manifest's ConfigMaps as its /etc: no flags name all of what
   it reads there.
3. It reports to its pod, in conditions that are its readiness gates.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from string import Template
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.process import Process
from tests.neighbours.daemon_pods import DaemonPods
from tests.neighbours.hosts import wait_until_published, write_host
from tests.neighbours.manifests import Manifests
from tests.neighbours.mounts import mounted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine
    from tests.neighbours.build import NeighbourFiles

READINESS_GATES = {"PodresourcesFetched": "True", "NodeTopologyUpdated": "True"}
_DEFAULTS = {
    "RTE_CONTAINER_IMAGE": "none",
    "RTE_POLL_INTERVAL": "60s",
    "RTE_VERBOSE": "5",
    "RTE_METRICS_MODE": "disabled",
    "RTE_METRICS_CLI_AUTH": "true",
    "METRICS_PORT": "2112",
    "METRICS_ADDRESS": "127.0.0.1",
}
"""What its hack/get-manifests.sh puts into the manifest."""


@dataclass(frozen=True)
class RunningExporters:
    """The running exporters."""

    pods: DaemonPods
    notify: Sequence[Path]
    """A file of each machine."""

    def tell(self) -> None:
        """Tell all that containers started or ended, as a hook of the container runtime would: they scan at once."""
        for file in self.notify:
            file.touch()


@dataclass(frozen=True)
class ExporterConfig:
    """What differs from its manifest."""

    flags: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Of the ConfigMap with what to exclude, instead of the whole content."""


@contextlib.contextmanager
def resource_topology_exporter(
    plane: ControlPlane,
    files: NeighbourFiles,
    machines: Sequence[SimulatedMachine],
    state: Path,
    config: ExporterConfig | None = None,
) -> Iterator[RunningExporters]:
    """Run it on machines whose kubelets serve in `state`."""
    config = config or ExporterConfig()
    text = Template((files.manifests / "manifests" / "resource-topology-exporter.yaml").read_text())
    manifests = Manifests(tuple(each for each in yaml.safe_load_all(text.substitute(_DEFAULTS)) if each))
    pods = DaemonPods(plane, manifests)
    started = []
    notify = []
    try:
        manifests.install(plane)
        pods.start(machines)
        kubeconfig = plane.service_account_kubeconfig(pods.namespace, "rte")
        for machine in machines:
            name = f"rte-{machine.name}"
            folder = write_host(machine, state)
            notify.append(folder / "host-run" / "rte" / "notify")
            etc = _write_etc(folder, manifests, config)
            started.append(name)
            plane.guests[name] = Process(
                name,
                [
                    *mounted({"/etc": etc, "/sys": folder / "host-sys"}),
                    files.program,
                    # from its working folder: the path of a socket may have 107 bytes
                    *(each.replace("/host-", "/proc/self/cwd/host-") for each in pods.container["args"]),
                    "--config=/etc/rte/extra/config.yaml",
                    f"--kubeconfig={kubeconfig}",
                    *config.flags,
                ],
                plane.folder / f"{name}.log",
                env={"PATH": os.environ["PATH"], **pods.environment(machine.name)},
                cwd=folder,
            )
        wait_until_published(plane, machines, "rte")
        yield RunningExporters(pods, notify)
    finally:
        for name in started:
            plane.guests.pop(name).stop()
        pods.stop()
        manifests.remove(plane)


def _write_etc(folder: Path, manifests: Manifests, config: ExporterConfig) -> Path:
    """Write its ConfigMaps below /etc/rte."""
    for each in manifests.of_kind("ConfigMap"):
        target = folder / "etc" / "rte" / each["metadata"]["name"].removeprefix("rte-config-")
        target.mkdir(parents=True)
        for name, text in each["data"].items():
            (target / name).write_text(text)
    if config.extra:
        (folder / "etc/rte/extra/config.yaml").write_text(yaml.safe_dump(dict(config.extra)))
    return folder / "etc"
