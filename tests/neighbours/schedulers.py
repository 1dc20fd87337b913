"""Schedulers of other projects beside kube-scheduler: their own programs, charts and rights.

scheduler-plugins runs as a second scheduler by its chart: its profile filters by NodeResourceTopologies.
KAI-Scheduler is three programs, which its operator would start: the pod grouper, the scheduler and the binder.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cluster.pki import Servers
from tests.cluster.ports import free_port
from tests.cluster.process import Process
from tests.neighbours.manifests import Manifests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles

SCHEDULER_PLUGINS_NAME = "scheduler-plugins-scheduler"
"""`schedulerName` of its pods, by the default values of its chart."""
KAI_NAME = "kai-scheduler"
KAI_QUEUE = {"kai.scheduler/queue": "default-queue"}
"""The label of a pod of KAI-Scheduler. Its chart installs the queue."""


class Program(NamedTuple):
    """A program, its ServiceAccount, and its flags besides those for the API server."""

    path: Path
    account: str
    flags: Sequence[str]


@contextlib.contextmanager
def scheduler_plugins(plane: ControlPlane, files: NeighbourFiles) -> Iterator[None]:
    """Run scheduler-plugins' scheduler with the configuration and the rights of its chart."""
    namespace = "scheduler-plugins"
    crds = Manifests.in_folder(files.manifests / "config" / "crd" / "bases").without_crds_of(plane)
    manifests = crds + Manifests.templated(plane, files.manifests / _SECOND_SCHEDULER, namespace)
    (config,) = manifests.of_kind("ConfigMap")
    file = plane.folder / f"{namespace}.yaml"
    with _installed(plane, manifests):
        kubeconfig = plane.service_account_kubeconfig(namespace, SCHEDULER_PLUGINS_NAME)
        file.write_text(config["data"]["scheduler-config.yaml"] + f"clientConnection: {{kubeconfig: {kubeconfig}}}\n")
        pair = Servers(plane.folder / f"{namespace}-pki").issue("scheduler")
        flags = [
            f"--config={file}",
            f"--secure-port={free_port()}",
            f"--tls-cert-file={pair.certificate}",
            f"--tls-private-key-file={pair.key}",
        ]
        with _running(plane, namespace, [Program(files.program, SCHEDULER_PLUGINS_NAME, flags)]):
            yield


@contextlib.contextmanager
def kai_scheduler(plane: ControlPlane, files: NeighbourFiles) -> Iterator[None]:
    """Run KAI-Scheduler with the CRDs, queues and rights of its chart. Its operator's Config is not needed."""
    namespace = "kai-scheduler"
    chart = files.manifests / "deployments" / "kai-scheduler"
    manifests = Manifests.templated(plane, chart, namespace).without("Config", "SchedulingShard").without_crds_of(plane)
    programs = [
        Program(files.programs / "podgrouper", "pod-grouper", _manager_flags()),
        Program(files.program, "scheduler", [f"--listen-address=127.0.0.1:{free_port()}", _port("plugin-server-port")]),
        Program(files.programs / "binder", "binder", _manager_flags()),
    ]
    accounts = Manifests(tuple(_account(namespace, program.account) for program in programs))
    with (
        _installed(plane, manifests + accounts),
        _running(plane, namespace, programs),
    ):
        yield


_SECOND_SCHEDULER = "manifests/install/charts/as-a-second-scheduler"


def _manager_flags() -> list[str]:
    return ["--metrics-bind-address=0", f"--health-probe-bind-address=127.0.0.1:{free_port()}"]


def _port(flag: str) -> str:
    return f"--{flag}={free_port()}"


def _account(namespace: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


@contextlib.contextmanager
def _installed(plane: ControlPlane, manifests: Manifests) -> Iterator[None]:
    try:
        manifests.install(plane)
        yield
    finally:
        manifests.remove(plane)


@contextlib.contextmanager
def _running(plane: ControlPlane, namespace: str, programs: Sequence[Program]) -> Iterator[None]:
    """Run programs with the rights of their ServiceAccounts."""
    started = []
    try:
        for program in programs:
            kubeconfig = plane.service_account_kubeconfig(namespace, program.account)
            name = f"{namespace}-{program.path.name}"
            plane.guests[name] = Process(
                name,
                [program.path, *program.flags],
                plane.folder / f"{name}.log",
                env={"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig)},
            )
            started.append(name)
        yield
    finally:
        for name in started:
            plane.guests.pop(name).stop()
