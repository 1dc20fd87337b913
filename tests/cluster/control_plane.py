"""A real control plane on loopback: etcd, kube-apiserver, kube-scheduler and kube-controller-manager.

Life cycle of `ControlPlane.start()`, a context manager:
1. A run folder for this start alone: certificates, tokens, etcd's data, logs, kubeconfigs.
2. etcd and the API server start side by side; the API server is ready when /readyz says so.
3. Scheduler and controllers start; ready when they say so and the `default` service account exists: pods can be
   created.
4. Any of them can be killed and started again (`restart`).
5. On exit every program is killed and the folder removed, with all data.

What differs from a cluster that kubeadm makes, because no kubelet runs here:
- no node-lifecycle controller and no TaintNodesByCondition admission: nothing taints nodes for missing heartbeats;
- etcd does not fsync: its data need not survive the machine;
- no endpoints for the `kubernetes` Service: a loopback address is not allowed there.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.admission_control import write_admission_control
from tests.cluster.api import Api, ApiError
from tests.cluster.kubeconfig import write_kubeconfig
from tests.cluster.pki import Servers, WebhookClient, write_tokens
from tests.cluster.ports import reserved_ports
from tests.cluster.process import Process
from tests.cluster.run_folder import run_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

USERS = {"admin": ("system:masters",), "system:kube-scheduler": (), "system:kube-controller-manager": ()}
"""The users that log in with a token, and their groups."""
CRDS = Path(__file__).parents[2] / "crds"
# On an idle machine an API server needs 3 seconds, and what tests wait for at most 10. A busy CI machine is slower.
READY_SECONDS = 120.0
POLL_SECONDS = 0.05


class NotReadyError(RuntimeError):
    """A component did not get ready in time. The message holds the end of every log."""


class CommandError(RuntimeError):
    """kubectl or helm failed. The message holds the command and its output."""


class ControlPlane:
    """A running control plane. Use `ControlPlane.start()`."""

    def __init__(
        self,
        folder: Path,
        assets: Mapping[str, Path],
        ports: Sequence[int],
        flags: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.folder = folder
        self._more_flags = flags or {}
        self.assets = assets
        self._etcd_port, self._peer_port, self._api_port, self._scheduler_port, self._controllers_port = ports
        self.url = f"https://127.0.0.1:{self._api_port}"
        self.processes: list[Process] = []
        """The components; all of them must run."""
        self._arguments: dict[str, Sequence[str]] = {}
        self._health = {
            "etcd": f"http://127.0.0.1:{self._etcd_port}/health",
            "kube-apiserver": f"{self.url}/readyz",
            # Waits for its informers; the controller manager has no /readyz.
            "kube-scheduler": f"https://127.0.0.1:{self._scheduler_port}/readyz",
            "kube-controller-manager": f"https://127.0.0.1:{self._controllers_port}/healthz",
        }
        self.guests: dict[str, Process] = {}
        """Programs that tests run against this control plane, by name. Errors show their logs too."""
        self._servers = Servers(folder / "pki")
        self.ca = self._servers.ca
        self.webhook_client = WebhookClient(folder / "pki")
        """The API server's identity as a client of webhooks."""
        self._tls = ssl.create_default_context(cafile=str(self.ca))
        self._service_account_key = self._servers.issue("service-accounts")
        self._token_file = folder / "tokens.csv"
        self._tokens = write_tokens(self._token_file, USERS)
        self.kubeconfig = self._kubeconfig("admin", self._tokens["admin"])
        self.api = Api(self.url, self.ca, self._tokens["admin"])

    @classmethod
    @contextlib.contextmanager
    def start(
        cls, assets: Mapping[str, Path], flags: Mapping[str, Sequence[str]] | None = None
    ) -> Iterator[ControlPlane]:
        """Start a control plane from these programs (see assets.py) and end it on exit.

        flags: more flags of a program, such as feature gates.
        """
        with run_folder() as folder, reserved_ports(5) as ports:
            plane = cls(folder, assets, ports, flags)
            try:
                plane._start_components()
                yield plane
            finally:
                plane.stop()

    def kubectl(self, *arguments: str | Path, input: str | None = None) -> str:  # noqa: A002 - subprocess' name for it
        """Run kubectl as admin and return what it prints. Raises `CommandError`."""
        return self.run("kubectl", *arguments, input=input)

    def kubectl_warnings(self, *arguments: str | Path, input: str) -> list[str]:  # noqa: A002
        """The warnings that kubectl prints. Raises `CommandError`."""
        told = self._run("kubectl", *arguments, input=input).stderr
        return [line.removeprefix("Warning: ") for line in told.splitlines() if line.startswith("Warning: ")]

    def helm(self, *arguments: str | Path, input: str | None = None) -> str:  # noqa: A002
        """Run helm as admin and return what it prints. Raises `CommandError`."""
        return self.run("helm", *arguments, input=input)

    def run(self, program: str, *arguments: str | Path, input: str | None = None) -> str:  # noqa: A002
        """Run a client program with the admin's kubeconfig and a home of this run, never the user's own."""
        return self._run(program, *arguments, input=input).stdout

    def _run(self, program: str, *arguments: str | Path, input: str | None) -> subprocess.CompletedProcess[str]:  # noqa: A002
        argv = [str(self.assets[program]), *map(str, arguments)]
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(argv, input=input, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            raise CommandError(
                f"{program} {' '.join(argv[1:])}: exit code {done.returncode}\n{done.stderr or done.stdout}"
            )
        return done

    def install_crds(self) -> None:
        """Install the CRDs of crds/ and wait until the API server serves them."""
        self.kubectl("apply", "--server-side", "--filename", CRDS)
        self.kubectl("wait", "--for=condition=Established", "--timeout=30s", "--filename", CRDS)

    def service_account_token(self, namespace: str, name: str) -> str:
        """A fresh token of a ServiceAccount (TokenRequest, valid for a day)."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400},
        }
        answer = self.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)
        return str(answer["status"]["token"])

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a fresh token of a ServiceAccount."""
        token = self.service_account_token(namespace, name)
        return self._kubeconfig(f"{namespace}.{name}", token, namespace=namespace)

    def create_namespace(self, name: str) -> None:
        """Create a namespace in which pods can be created at once (its `default` service account exists)."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        self.wait_for(f"service account default in {name}", partial(self._exists, _default_account(name)))

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace and wait until its pods are gone, so that they take no room on any node.

        Bound pods are deleted by force: no kubelet confirms that they ended. The namespace is deleted first: while it
        terminates, no controller can create new pods.
        """
        try:
            self.api.delete(f"/api/v1/namespaces/{name}")
        except ApiError as error:
            if error.status not in (404, 409):  # gone, or going already
                raise
        self.wait_for(f"the end of the pods in {name}", partial(self._no_pods_left, f"/api/v1/namespaces/{name}/pods"))

    def wait_for(self, what: str, condition: Callable[[], object], seconds: float = READY_SECONDS) -> Any:
        """Poll until `condition` gives something true, and return that. Raises `NotReadyError` with the logs' ends."""
        deadline = time.monotonic() + seconds
        while not (answer := condition()):
            for process in self.processes:
                process.require_running()
            if time.monotonic() > deadline:
                raise NotReadyError(f"{what}: not after {seconds:.0f} s\n{self.logs()}")
            time.sleep(POLL_SECONDS)
        return answer

    def wait_until_ready(self, *programs: str) -> None:
        """Wait until these components report ready; all components if none is named."""
        for program in programs or self._health:
            self.wait_for(f"{program} ready", partial(self._answers, self._health[program]))

    def restart(self, program: str, *, down: float = 0.0, flags: Sequence[str] | None = None) -> None:
        """Kill a component as a crash would, and start it again `down` seconds later, with what it had stored.

        flags: replace those that `start` was given for this program; None: they stay.
        """
        if flags is not None:
            before = self._more_flags.get(program, ())
            own = self._arguments[program][: len(self._arguments[program]) - len(before)]
            self._more_flags = {**self._more_flags, program: flags}
            self._arguments[program] = (*own, *flags)
        index = [process.name for process in self.processes].index(program)
        self.processes[index].kill()
        time.sleep(down)
        self.processes[index] = self._run_component(program)

    def logs(self, lines: int = 30) -> str:
        """The end of the log of every component and guest."""
        programs = [*self.processes, *self.guests.values()]
        return "\n".join(f"--- {program.name} ({program.log})\n{program.tail(lines)}" for program in programs)

    def stop(self) -> None:
        """End every program, all side by side."""
        self.api.close()
        for process in self.processes:
            process.ask_to_stop()
        for process in self.processes:
            process.stop()

    def _start_components(self) -> None:
        self._start_etcd()
        self._start_api_server()
        self.wait_until_ready("kube-apiserver")
        self._start_scheduler()
        self._start_controllers()
        self.wait_until_ready("kube-scheduler", "kube-controller-manager")
        self.wait_for("service account default", partial(self._exists, _default_account("default")))

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        self._start(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--socket-reuse-port=true",
            "--unsafe-no-fsync=true",
        )

    def _start_api_server(self) -> None:
        serving = self._servers.issue("kube-apiserver", ["127.0.0.1", "localhost", "kubernetes.default.svc"])
        tokens = self._service_account_key
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._api_port}",
            "--permit-port-sharing=true",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--token-auth-file={self._token_file}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={tokens.certificate}",
            f"--service-account-signing-key-file={tokens.key}",
            "--disable-admission-plugins=TaintNodesByCondition",
            f"--admission-control-config-file={write_admission_control(self.folder, self.webhook_client.pair)}",
        )

    def _start_scheduler(self) -> None:
        self._start(
            "kube-scheduler",
            *self._client_flags("system:kube-scheduler", self._scheduler_port),
        )

    def _start_controllers(self) -> None:
        self._start(
            "kube-controller-manager",
            *self._client_flags("system:kube-controller-manager", self._controllers_port),
            "--controllers=*,-node-lifecycle-controller",
            # As with kubeadm, each controller acts as its own service account: admission webhooks see that user.
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._service_account_key.key}",
            f"--root-ca-file={self.ca}",
            # The default, 20 requests a second, protects servers with many clients. Tests would only wait longer.
            "--kube-api-qps=500",
            "--kube-api-burst=500",
        )

    def _client_flags(self, user: str, port: int) -> list[str]:
        """The flags that scheduler and controller manager share."""
        name = user.removeprefix("system:")
        kubeconfig, serving = self._kubeconfig(name, self._tokens[user]), self._servers.issue(name)
        return [
            f"--kubeconfig={kubeconfig}",
            # Health and metrics on loopback need no authentication.
            "--authentication-skip-lookup=true",
            "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--permit-port-sharing=true",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
        ]

    def _start(self, program: str, *arguments: str) -> None:
        self._arguments[program] = (*arguments, *self._more_flags.get(program, ()))
        self.processes.append(self._run_component(program))

    def _run_component(self, program: str) -> Process:
        argv: list[str | Path] = [self.assets[program], *self._arguments[program]]
        return Process(program, argv, self.folder / f"{program}.log")

    def _kubeconfig(self, name: str, token: str, namespace: str = "default") -> Path:
        return write_kubeconfig(self.folder / f"{name}.kubeconfig", self.url, self.ca, token, namespace=namespace)

    def _answers(self, url: str) -> bool:
        """Whether a server of ours answers 200 to a GET without credentials.

        A server without /readyz, such as the scheduler of Kubernetes 1.30, is asked for /healthz.
        """
        try:
            with urllib.request.urlopen(url, context=self._tls, timeout=5) as answer:  # noqa: S310 - our own https URL
                return bool(answer.status == 200)
        except OSError as error:  # not listening yet, or not ready (HTTPError is an OSError)
            absent = isinstance(error, urllib.error.HTTPError) and error.code == 404 and url.endswith("/readyz")
            return absent and self._answers(url.removesuffix("/readyz") + "/healthz")

    def _no_pods_left(self, path: str) -> bool:
        try:
            self.api.delete(path, {"gracePeriodSeconds": 0})
        except ApiError as error:
            if error.status != 504:  # a thousand pods on a busy machine: it goes on with the next one
                raise
        return not self.api.get(path)["items"]

    def _exists(self, path: str) -> bool:
        try:
            self.api.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True


def _default_account(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
