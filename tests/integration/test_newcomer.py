"""README and tutorial, typed command by command into a fresh shell, against a real control plane.

The shell has a home and a PATH of its own, and a copy of the checkout without anything that was made in it before.
What a test bed cannot have is replaced in its PATH:
1. `docker`, `ssh` and `nvidia-smi` do nothing.
2. `helm` adds the loopback addresses of the webhook's local process to our chart, and installs no other chart.
Its user's cache is shared, so that the control plane of `make demo` is not compiled again.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.gated import PLACEMENT, Pods
from tests.cluster.job_pods import job_pods
from tests.cluster.nodes import machines, present
from tests.cluster.once import user_cache
from tests.cluster.racked import rack_of
from tests.cluster.services import Services
from tests.cluster.webhook_process import NAMESPACE, RELEASE, LocalWebhook, free_ports, local_webhook
from tests.pages import console_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
MADE = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "dist", "site")
DOES_NOTHING = "#!/bin/sh\n"
# What a machine needs to reach the package index is its own: pip's settings, proxies, certificates.
OF_THE_MACHINE = re.compile(r"PIP_|UV_|SSL_CERT|REQUESTS_CA|.*_proxy$", re.IGNORECASE)


class Bash:
    """A bash that keeps its state from one command to the next, in `folder/checkout`."""

    def __init__(self, folder: Path, plane: ControlPlane, helm: str) -> None:
        self.checkout = folder / "checkout"
        shutil.copytree(ROOT, self.checkout, symlinks=True, ignore=MADE)
        home, programs = folder / "home", folder / "bin"
        (home / ".kube").mkdir(parents=True)
        shutil.copy(plane.kubeconfig, home / ".kube" / "config")
        programs.mkdir()
        (programs / "kubectl").symlink_to(plane.assets["kubectl"])
        for name, text in {"helm": helm, **dict.fromkeys(("docker", "ssh", "nvidia-smi"), DOES_NOTHING)}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        own = {name: value for name, value in os.environ.items() if OF_THE_MACHINE.match(name)}
        environment = {"HOME": str(home), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.checkout,
            env={**own, **environment, "XDG_CACHE_HOME": str(user_cache().parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, line: str) -> tuple[int, str]:
        """Type a command; returns its exit code and what it printed."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f'{{ {line}\n}} </dev/null\necho "<exit code $?>"\n')
        self._bash.stdin.flush()
        printed: list[str] = []
        for each in self._bash.stdout:
            if found := re.search(r"<exit code (\d+)>\n$", each):
                return int(found[1]), "".join([*printed, each[: found.start()]])
            printed.append(each)
        raise AssertionError(f"the shell ended at {line}: {''.join(printed)}")

    def close(self) -> None:
        """End the shell, and with it what it still runs."""
        self._bash.communicate("exit\n", timeout=60)


def helm_of(plane: ControlPlane, *ours: str) -> str:
    """A program `helm` that adds these flags where our chart is installed or upgraded."""
    real = plane.assets["helm"]
    flags = " ".join(f"'{flag}'" for flag in ours)
    cases = f'install\\ {RELEASE}|upgrade\\ {RELEASE}) exec {real} "$@" {flags};;\n  install\\ *) exit 0;;'
    return f'#!/bin/bash\ncase "$1 $2" in\n  {cases}\n  *) exec {real} "$@";;\nesac\n'


@contextlib.contextmanager
def shell(folder: Path, plane: ControlPlane, helm: str) -> Iterator[Bash]:
    opened = Bash(folder, plane, helm)
    try:
        yield opened
    finally:
        opened.close()


def type_all(shell: Bash, page: str, after: Callable[[str, int, str], None], fails: str = "") -> int:
    """Type the commands of a page in order, calling `after` for each; returns how many. fails: one that has to."""
    lines = console_lines((ROOT / page).read_text())
    for line in lines:
        code, printed = shell.type(line)
        assert bool(code) is bool(fails and re.search(fails, line)), f"{line}\n{printed}"
        after(line, code, printed)
    return len(lines)


def test_a_newcomer_types_the_readme_from_the_demo_to_the_uninstallation(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    ports, client = free_ports(), control_plane.webhook_client
    url = f"https://127.0.0.1:{ports.port}"
    helm = helm_of(
        control_plane,
        f"--set=webhook.url={url},replicaCount=0",
        f"--set-file=tls.clientCA.pem={client.ca}",
        f"--set=tls.clientNames={{{client.NAME}}}",
    )
    with contextlib.ExitStack() as stack:
        services = stack.enter_context(Services.following(control_plane.api, NAMESPACE))
        webhook = LocalWebhook(control_plane, None, services)
        stack.callback(webhook.remove)
        # The examples ask for nodes with either policy.
        single, restricted = machines(2, 2, prefix="newcomer")
        stack.enter_context(present(control_plane.api, [single, replace(restricted, policy="restricted")]))
        jobs = stack.enter_context(job_pods(control_plane, NAMESPACE))
        pods = Pods(control_plane, "default")
        typing = stack.enter_context(shell(tmp_path, control_plane, helm))
        said: dict[str, str] = {}

        def after(line: str, _: int, printed: str) -> None:
            said[line.partition(" --")[0]] = printed
            if line.startswith(f"helm install {RELEASE}"):  # a kubelet starts the Deployment's pods
                webhook.add_replica(ports).wait_until_ready()
                assert webhook.replicas[0].backend == ports
                control_plane.wait_for("a leader", lambda: webhook.leaders)
                assert webhook.wait_until_called()
            elif line.endswith("examples/pod.yaml"):
                pods.wait_until_bound("solver")

        count = type_all(typing, "README.md", after, fails="examples/mistakes")
        assert count > 15
        assert [run.code for run in jobs.runs] == [0, 0], jobs.runs  # helm test, and what ungates at the uninstallation
        assert "denied the request" in said["kubectl create -f examples/mistakes/"]
        assert re.search(rf"{PLACEMENT}:\s+placed on newcomer-\d+, NUMA ", said["kubectl describe pod solver"])
        assert "rejected" in said["make demo"]
        assert (typing.checkout / ".venv" / "bin" / "topology-webhook").exists()


def test_a_newcomer_types_the_tutorial_and_has_a_first_pod_and_a_first_gang(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    snapshot = ROOT / "examples" / "snapshots" / "gpus.yaml"
    pods = Pods(control_plane, "default")
    with contextlib.ExitStack() as stack:
        control_plane.kubectl("create", "--filename", snapshot)
        stack.callback(control_plane.kubectl, "delete", "--filename", snapshot)
        stack.callback(control_plane.kubectl, "delete", "topologies.kai.scheduler", "gpu-pool", "--ignore-not-found")
        stack.callback(control_plane.kubectl, "delete", "pods", "--all", "--force", "--grace-period=0")
        stack.callback(control_plane.kubectl, "delete", "jobs", "--all")
        control_plane.kubectl("label", "nodes", "--all", "example.com/rack-")  # as a tutorial's reader has them
        webhook = stack.enter_context(local_webhook(control_plane))
        assert webhook.wait_until_called()
        typing = stack.enter_context(shell(tmp_path, control_plane, helm_of(control_plane)))
        typing.type("export NFD_CHARTS=none")

        def after(line: str, _: int, printed: str) -> None:
            if line.endswith("tutorial/pod.yaml"):
                pods.wait_until_bound("first")
            elif line == "kubectl describe pod first":
                assert re.search(rf"{PLACEMENT}:\s+placed on gpu-\d, NUMA ", printed)
            elif line.endswith("kubectl apply -f examples/tutorial/gang.yaml"):
                control_plane.wait_for("the gang to be bound", lambda: len(gang(pods)) == 4)

        # No kubelet serves logs here.
        assert type_all(typing, "docs/tutorial.md", after, fails="^kubectl logs ") > 15
        assert {rack_of(pods, name) for name in gang(pods)} == {"rack-2"}


def gang(pods: Pods) -> list[str]:
    return [name for name in pods.bound() if name.startswith("first-gang-")]
