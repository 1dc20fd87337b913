"""cert-manager beside the control plane: its own chart, and its three programs as local processes.

1. helm installs cert-manager's chart with zero pods and the webhook's URL on loopback.
2. Controller, cainjector and webhook run here, each with the token and so with the rights of its ServiceAccount.
3. Ready: the API server admits an Issuer, for which the cainjector has to publish the webhook's CA.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.api import ApiError
from tests.cluster.ports import free_port
from tests.cluster.process import Process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cert_manager_build import CertManagerFiles
    from tests.cluster.control_plane import ControlPlane

RELEASE: Final = "cert-manager"
ACCOUNTS: Final = {
    "controller": "cert-manager",
    "cainjector": "cert-manager-cainjector",
    "webhook": "cert-manager-webhook",
}
API: Final = "/apis/cert-manager.io/v1/namespaces"


class CertManager:
    """A running cert-manager. Use `cert_manager()`."""

    def __init__(self, plane: ControlPlane, files: CertManagerFiles) -> None:
        self._plane = plane
        self._files = files
        self._port = free_port()
        self._processes: dict[str, Process] = {}

    def install(self) -> None:
        """Install the chart and start the programs."""
        values = {
            "crds.enabled": "true",
            "crds.keep": "false",
            "replicaCount": "0",
            "webhook.replicaCount": "0",
            "cainjector.replicaCount": "0",
            "startupapicheck.enabled": "false",
            "webhook.url.host": f"localhost:{self._port}",
        }
        sets = ",".join(f"{name}={value}" for name, value in values.items())
        where = ["--namespace", RELEASE, "--create-namespace"]
        self._plane.helm("install", RELEASE, self._files.chart, *where, "--set", sets)
        for program in ACCOUNTS:
            self.start(program)
        self._plane.wait_for("cert-manager", self._admits_an_issuer)

    def start(self, program: str, *flags: str) -> None:
        """Start a program that does not run."""
        kubeconfig = self._plane.service_account_kubeconfig(RELEASE, ACCOUNTS[program])
        name = f"cert-manager-{program}"
        self._processes[program] = self._plane.guests[name] = Process(
            name,
            [self._files.program, program, f"--namespace={RELEASE}", f"--port={self._port}", *flags],
            self._plane.folder / f"{name}.log",
            env={"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig)},
        )

    def runs(self, program: str) -> bool:
        return program in self._processes

    def stop(self, program: str) -> None:
        """End a program."""
        process = self._processes.pop(program)
        process.stop()
        del self._plane.guests[process.name]

    def _admits_an_issuer(self) -> bool:
        for process in self._processes.values():
            process.require_running()
        issuer = {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Issuer",
            "metadata": {"name": "is-cert-manager-called"},
            "spec": {"selfSigned": {}},
        }
        try:
            self._plane.api.create(f"{API}/default/issuers?dryRun=All", issuer)
        except ApiError:
            return False
        return True

    def renew(self, namespace: str, certificate: str) -> None:
        """Begin the renewal of a Certificate, as `cmctl renew` does, and wait until it is issued.

        Source: cert-manager/cmctl, pkg/renew.
        """
        path = f"{API}/{namespace}/certificates/{certificate}"
        before = self._plane.api.get(path)
        conditions = [each for each in before["status"]["conditions"] if each["type"] != "Issuing"]
        issuing = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by a test"}
        before["status"]["conditions"] = [*conditions, issuing]
        self._plane.api.replace(f"{path}/status", before)

        def issued() -> bool:
            now = self._plane.api.get(path)["status"]
            return now["revision"] > before["status"]["revision"] and is_ready(now)

        self._plane.wait_for(f"the renewal of {certificate}", issued)

    def remove(self) -> None:
        """End the programs and uninstall the chart with its CRDs."""
        for program in list(self._processes):
            self.stop(program)
        self._plane.helm("uninstall", RELEASE, "--namespace", RELEASE, "--ignore-not-found")


def is_ready(status: Any) -> bool:
    """Whether the status of a Certificate or Issuer says that it is ready."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))


@contextlib.contextmanager
def cert_manager(plane: ControlPlane, files: CertManagerFiles) -> Iterator[CertManager]:
    """Run cert-manager beside this control plane; on exit it is removed with all its objects."""
    running = CertManager(plane, files)
    try:
        running.install()
        yield running
    finally:
        running.remove()
