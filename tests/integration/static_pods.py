"""A machine whose static pods take CPUs that no NodeResourceTopology shows, and a ReplicaSet that runs into them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from tests.cluster.gated import Pods, pod
from tests.cluster.kubelets import Kubelets, even_machine, kubelets, static_pod
from tests.cluster.nodes import TOPOLOGIES, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane


class Site:
    """The kubelets, and the files of k0's static pods."""

    def __init__(self, plane: ControlPlane, running: Kubelets, files: list[Path]) -> None:
        self._plane = plane
        self._running = running
        self._files = files

    def rejected(self) -> list[str]:
        """The nodes that rejected a pod, in order."""
        return [event["node"] for event in self._running.events("rejected")]

    def end_static_pods(self) -> None:
        """Delete the files, and wait until the kubelet has freed the CPUs."""
        for file in self._files:
            file.unlink()
        self._plane.wait_for("their end", lambda: len(self._running.events("ended")) == len(self._files))


@contextlib.contextmanager
def surprising_machine(plane: ControlPlane, folder: Path) -> Iterator[Site]:
    """The machines k0 and k1 within this context. folder: for the manifests of the static pods.

    k0 ── NUMA 0 [3]  NUMA 1 [3]      [free cpus]; its NRT still shows 8 and 8
    k1 ── NUMA 0 [8]  NUMA 1 [8]      without an NRT at first
    """
    machines = [even_machine(name, cpus=8) for name in ("k0", "k1")]
    with kubelets(plane, machines, publisher="none", manifests=folder) as running:
        files = [static_pod(folder, "k0", name, cpu=5) for name in ("s0", "s1")]
        plane.wait_for("the static pods", lambda: len(running.events("static")) == len(files))
        create_topology(plane, "k0")
        yield Site(plane, running, files)


def create_topology(plane: ControlPlane, name: str) -> None:
    """The machine's NRT from before the static pods came."""
    plane.api.create(TOPOLOGIES, Machine(name, free=(8, 8), cpus=8).topology())


def create_replica_set(pods: Pods) -> None:
    """The ReplicaSet `a` with one replica of 5 CPUs."""
    raw: dict[str, Any] = pod("", cpu=5)
    labels = {"app": "a"}
    template = {"metadata": {"annotations": raw["metadata"]["annotations"], "labels": labels}, "spec": raw["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{pods.namespace}/replicasets"
    pods.plane.api.create(path, {"metadata": {"name": "a"}, "spec": spec})


def in_phase(pods: Pods, phase: str) -> list[str]:
    """The names of the pods in this phase."""
    return [name for name, raw in pods.all().items() if raw["status"]["phase"] == phase]
