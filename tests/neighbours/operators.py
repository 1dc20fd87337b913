"""Operators of other projects beside the control plane: their own programs, manifests and webhooks.

Life cycle of `operator()`, a context manager:
1. Its manifests are installed (manifests.py).
2. The program runs with the rights of its ServiceAccount and with its own configuration or flags, of which only
   addresses, certificates and the election are changed.
3. Ready: its /readyz answers 200, and its webhooks are installed.
4. On exit the program ends, and all that was installed is deleted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import yaml

from tests.cluster.pki import Servers
from tests.cluster.ports import free_port
from tests.cluster.process import Process
from tests.neighbours.manifests import Manifests
from tests.neighbours.mounts import mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles

PROBE_SECONDS = 5.0


class Addresses(NamedTuple):
    """Where a local operator listens, and the folder with the certificate of its webhooks."""

    webhook_port: int
    health_port: int
    folder: Path


def configured(manifests: Manifests, addresses: Addresses) -> list[str]:
    """The flag of an operator that reads a controller-runtime configuration file."""
    config = manifests.config() | {
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{addresses.health_port}"},
        "webhook": {"host": "127.0.0.1", "port": addresses.webhook_port, "certDir": str(addresses.folder)},
    }
    file = addresses.folder / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    return [f"--config={file}"]


def ray_flags(_: Manifests, addresses: Addresses) -> list[str]:
    """The flags of KubeRay's operator, which has no webhooks by default."""
    health = f"--health-probe-bind-address=127.0.0.1:{addresses.health_port}"
    return [health, "--metrics-addr=0", "--enable-leader-election=false"]


@contextlib.contextmanager
def operator(
    plane: ControlPlane,
    files: NeighbourFiles,
    flags: Callable[[Manifests, Addresses], list[str]] = configured,
    *,
    certificates: str = "",
) -> Iterator[Process]:
    """Run an operator with what its `config/default` installs.

    certificates: the folder below /etc where it wants its certificate, if no flag says so. It then gets its own /etc.
    """
    name = files.neighbour.name
    manifests = Manifests.rendered(plane, files.manifests / "config" / "default")
    with TemporaryDirectory() as scratch:
        addresses = Addresses(free_port(), free_port(), Path(scratch))
        servers = Servers(addresses.folder / "pki")
        pair = servers.issue("webhook")
        shutil.copy(pair.certificate, addresses.folder / "tls.crt")
        shutil.copy(pair.key, addresses.folder / "tls.key")
        url = f"https://127.0.0.1:{addresses.webhook_port}"
        manifests = manifests.converted_at(url, servers.ca)
        argv: list[str | Path] = [files.program, *flags(manifests, addresses)]
        if certificates:
            argv = [*own_etc(addresses.folder, certificates), *argv]
        try:
            manifests.install(plane)
            deployment = manifests.deployment()
            kubeconfig = plane.service_account_kubeconfig(
                deployment["metadata"]["namespace"], deployment["spec"]["template"]["spec"]["serviceAccountName"]
            )
            process = plane.guests[name] = Process(
                name,
                argv,
                plane.folder / f"{name}.log",
                env={"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig), "HOME": scratch},
            )
            plane.wait_for(f"{name} /readyz", lambda: is_ready(process, addresses.health_port))
            manifests.install_webhooks(plane, url, servers.ca)
            yield process
        finally:
            if name in plane.guests:
                plane.guests.pop(name).stop()
            manifests.remove(plane)


def own_etc(folder: Path, place: str) -> list[str]:
    """A command that runs a program with an /etc that has nothing but the certificate in the folder `place`."""
    etc = folder / "etc"
    certificates = etc / Path(place).relative_to("/etc")
    certificates.mkdir(parents=True)
    for name in ("tls.crt", "tls.key"):
        shutil.copy(folder / name, certificates)
    return mounted({"/etc": etc})


def is_ready(process: Process, port: int) -> bool:
    """Whether /readyz answers 200. Raises `ProcessEndedError` if the program ended."""
    process.require_running()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PROBE_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
