"""The chart's Deployment as local processes: installed by helm, run here, called by the real API server.

1. helm installs the chart with `webhook.url` set, so that the API server calls loopback. It has zero pods: no kubelet
   would run them, and they would take room on the nodes of a test.
2. Each replica is the container of the rendered Deployment: its args and env, its Secrets as files, and the chart's
   ServiceAccount by a token. Only its addresses and its kubeconfig differ.
3. The API server shows a client certificate (admission_control.py), and the webhook requests it, unless a test changes
   that.
4. Each replica has a Pod object, and the chart's Services lead to it (services.py). One replica is called directly,
   several through a relay for each Service.
5. Ready: every replica's /readyz answers 200, one of them leads, and the API server calls the webhook.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import urllib.request
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic.alias_generators import to_camel

from tests.cluster.api import ApiError
from tests.cluster.control_plane import NotReadyError
from tests.cluster.mounted_volume import mounted_volumes, with_local_paths
from tests.cluster.ports import free_port
from tests.cluster.process import Process, ProcessEndedError
from tests.cluster.relay import relay
from tests.cluster.services import Backend, Services
from webhook.app.settings import AdvancedSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

CHART = Path(__file__).parents[2] / "charts" / "topology-webhook"
RELEASE = NAMESPACE = "topology-webhook"
BIND_SERVICE = f"{RELEASE}-bind"  # of releases whose leader alone was called for bindings
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{RELEASE}"
PROGRAM = Path(sys.executable).with_name("topology-webhook")
REFUSED_BINDINGS = 'topology_webhook_reviews_total{operation="CREATE",verdict="deny",webhook="mutate-bindings"}'
ALLOCATIONS_BACKFILLED = "topology_webhook_hints_backfilled_total"
# A leader counts as dead after six seconds, and after four if a busy machine delays it. So they are not shorter.
# A new one waits for 8 s (`Settings.assume_ttl`).
QUICK_LEASE = {"leaseDurationSeconds": 6, "apiServerRequestTimeoutSeconds": 0}
PORT_ATTEMPTS = 5
CALLED_SECONDS = 30.0  # the API server receives a changed webhook configuration within one
DRAIN_SECONDS = 30.0  # the chart's terminationGracePeriodSeconds with default values

_CONFIGURATION = "/etc/topology-webhook/config/configuration.yaml"

Values = Mapping[str, Any] | Path
"""Additional values of the chart, or the file that has them."""

Images = Mapping[str, str | Path]
"""The program of an image, by the image's tag. Any other image has the program of this source."""


class Replica:
    """One local process of the webhook."""

    def __init__(self, plane: ControlPlane, name: str, pod_spec: Mapping[str, Any]) -> None:
        self.name = name
        self.program: list[str | Path] = [PROGRAM]
        """Tests may replace it; a replacement gets the same arguments."""
        self._plane = plane
        self._kubeconfig = plane.service_account_kubeconfig(NAMESPACE, pod_spec["serviceAccountName"])
        self._set(pod_spec)

    def _set(self, pod_spec: Mapping[str, Any]) -> None:
        (self._container,) = pod_spec["containers"]
        folder = self._plane.folder / f"{self.name}-volumes"
        folder.mkdir(exist_ok=True)
        # A start mounts them again. Nothing else updates them.
        self.volumes = mounted_volumes(self._plane.api, NAMESPACE, pod_spec, folder)

    def start(self, backend: Backend, pod_spec: Mapping[str, Any] | None = None) -> None:
        """Start or restart the process on these ports; its log continues. pod_spec: None keeps the current one."""
        if pod_spec is not None:
            self._set(pod_spec)
        if before := self._plane.guests.get(self.name):
            before.stop()
        for volume in self.volumes.values():
            self._plane.wait_for("a volume to mount", volume.exists)
            volume.update()
        self.backend = backend
        listen = {"bind-address": "127.0.0.1", "port": backend.port, "metrics-port": backend.health_port}
        if "peerPort" in self.configuration.get("installation", {}):  # earlier versions do not know the flag
            listen["peer-port"] = backend.peer_port
        if self._shows_page:  # earlier versions do not know the flag
            listen["page-port"] = backend.page_port
        if self._has_secure_metrics:
            listen["metrics-tls-port"] = backend.metrics_tls_port
        flags = [f"--{name}={value}" for name, value in {**listen, "kubeconfig": self._kubeconfig}.items()]
        self.process = Process(
            self.name,
            [*self.program, *self._arguments(), *flags],
            self._plane.folder / f"{self.name}.log",
            env={"PATH": os.environ["PATH"], **self._environment()},
            grace_seconds=DRAIN_SECONDS,
        )
        self._plane.guests[self.name] = self.process

    @property
    def client_ca(self) -> Path:
        """The file with the clients' CA, which a kubelet would have mounted."""
        return self.volumes["/etc/topology-webhook/client-ca"].folder / "ca.crt"

    def _environment(self) -> dict[str, str]:
        """The container's environment, with local paths for the files that the kubelet would mount."""
        environment = container_environment(self._container, self.name)
        return {name: with_local_paths(value, self.volumes) for name, value in environment.items()}

    def _arguments(self) -> list[str]:
        """The container's arguments, and its configuration file, with local paths likewise."""
        local = self._plane.folder / f"{self.name}-configuration.yaml"
        local.write_text(with_local_paths(yaml.safe_dump(self.configuration), self.volumes))
        return [argument.replace(_CONFIGURATION, str(local)) for argument in self._container["args"]]

    @property
    def configuration(self) -> dict[str, Any]:
        """The content of its configuration file; empty before the first start, and in version 0.1.0, which has none."""
        folder, _, name = _CONFIGURATION.rpartition("/")
        file = self.volumes[folder].folder / name if folder in self.volumes else None
        return dict(yaml.safe_load(file.read_text())) if file is not None and file.exists() else {}

    def start_again(self) -> None:
        """Restart the process on its ports, and wait until it is ready."""
        self.start(self.backend)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait for /readyz. If another program has taken one of the ports, the process moves to others."""
        for _ in range(PORT_ATTEMPTS):
            try:
                self._plane.wait_for(f"{self.name} /readyz", self.is_ready)
            except ProcessEndedError as error:
                if "address already in use" not in str(error):
                    raise
                self.start(free_ports())
            else:
                return
        raise NotReadyError(f"{self.name}: every port it was given was taken\n{self.process.tail()}")

    def is_ready(self) -> bool:
        """Whether /readyz says so. Raises `ProcessEndedError` when the process ended."""
        self.process.require_running()
        return self.backend.is_ready()

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics by its name and labels. Raises `OSError` when the process does not answer."""
        with urllib.request.urlopen(f"{self.metrics_url}/metrics", timeout=5) as answer:  # noqa: S310 - our own
            lines: list[str] = answer.read().decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def refused_bindings(self) -> int:
        """Bindings that this process has refused, each a failed attempt of the scheduler; 0 when it does not answer."""
        return self._count(REFUSED_BINDINGS)

    def allocation_backfills(self) -> int:
        """Allocations that this process wrote into pods that were bound without one; 0 when it does not answer."""
        return self._count(ALLOCATIONS_BACKFILLED)

    def _count(self, metric: str) -> int:
        try:
            return int(self.metrics().get(metric, 0))
        except OSError:
            return 0

    @property
    def mode(self) -> str:
        """Its settings.mode."""
        return str(self.configuration.get("mode", "Enforce"))

    @property
    def page_url(self) -> str | None:
        """The base URL of its page; None if that is not enabled."""
        return f"http://127.0.0.1:{self.backend.page_port}/" if self._shows_page else None

    @property
    def secure_metrics_url(self) -> str:
        """The URL of the metrics for clients with a token."""
        return f"https://127.0.0.1:{self.backend.metrics_tls_port}/metrics"

    @property
    def _has_secure_metrics(self) -> bool:
        return "metricsTlsPort" in self.configuration.get("installation", {})

    @property
    def _shows_page(self) -> bool:
        return bool(self.configuration.get("installation", {}).get("page"))

    @property
    def metrics_url(self) -> str:
        """The base URL of /metrics, /healthz and /readyz."""
        return f"http://127.0.0.1:{self.backend.health_port}"


class LocalWebhook:
    """An installed chart and its replicas. Use `local_webhook()`."""

    def __init__(
        self,
        plane: ControlPlane,
        values: Values | None,
        services: Services,
        *,
        chart: Path = CHART,
        images: Images | None = None,
        client_certificates: bool = True,
    ) -> None:
        self._plane = plane
        self._values = values
        self._chart = chart
        self._images = images or {}
        self._client_certificates = client_certificates
        self.services = services
        self.replicas: list[Replica] = []
        self.url = ""
        self._ports = (0, 0)

    def install(self, port: int, bind_port: int) -> None:
        """Install or upgrade the release so that the API server calls these loopback ports.

        bind_port: for calls of the leader alone, in the charts of earlier releases.
        """
        self._ports = port, bind_port
        self.url = f"https://127.0.0.1:{port}"
        ours = f"webhook.url={self.url},replicaCount=0,image.repository=none"
        if self._chart != CHART:
            ours += f",webhook.bindUrl=https://127.0.0.1:{bind_port}"
        file, text = ("-", json.dumps(self._given())) if not isinstance(self._values, Path) else (self._values, None)
        arguments = ["--namespace", NAMESPACE, "--create-namespace", "--values", file, "--set", ours]
        if self._client_certificates:
            client = self._plane.webhook_client
            arguments += ["--set-file", f"tls.clientCA.pem={client.ca}", "--set", f"tls.clientNames={{{client.NAME}}}"]
        self._plane.helm("upgrade", "--install", RELEASE, self._chart, *arguments, input=text)

    def _given(self) -> dict[str, Any]:
        """The values of a test, which names settings without their section."""
        values = dict(self._values or {}) if not isinstance(self._values, Path) else {}
        if self._chart == CHART and "settings" in values:
            values["settings"] = in_sections(values["settings"])
        return values

    def upgrade(self, values: Mapping[str, Any]) -> None:
        """Upgrade the release with these values instead of the installed ones. Call `roll_out` after it."""
        self._values = values
        self.install(*self._ports)

    def rollback(self) -> None:
        """Roll the release back to its last revision. Call `roll_out` after it."""
        self._plane.helm("rollback", RELEASE, "--namespace", NAMESPACE)

    def roll_out(self, replica: Replica) -> None:
        """End a replica's Pod and start one of the current template, as the Deployment would."""
        template = self._template()
        replica.process.stop()
        self.services.replace_pod(replica.name, template)
        replica.program = self._program(template)
        replica.start(replica.backend, template["spec"])
        replica.wait_until_ready()

    def add_replica(self, backend: Backend) -> Replica:
        """Start one more replica of the installed Deployment."""
        template = self._template()
        name = f"{RELEASE}-{len(self.replicas)}"
        (self._plane.folder / f"{name}.log").unlink(missing_ok=True)  # from an earlier installation
        replica = Replica(self._plane, name, template["spec"])
        replica.program = self._program(template)
        replica.start(backend)
        self.services.add_pod(name, template, lambda: replica.backend)
        self.replicas.append(replica)
        return replica

    def _template(self) -> Any:
        """The pod template of the installed Deployment."""
        (deployment,) = self._plane.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")["items"]
        return deployment["spec"]["template"]

    def _program(self, template: Any) -> list[str | Path]:
        """The program of the template's image."""
        tag = template["spec"]["containers"][0]["image"].rpartition(":")[2]
        return [self._images.get(tag, PROGRAM)]

    @property
    def leaders(self) -> list[Replica]:
        """The replica that holds the Lease; none while nobody does."""
        try:
            holder = self._plane.api.get(LEASE)["spec"].get("holderIdentity") or ""
        except ApiError as error:
            if error.status != 404:
                raise
            return []
        return [replica for replica in self.replicas if replica.name == holder.rpartition("_")[0]]

    def is_called(self) -> bool:
        """Whether the API server calls the webhook for pods in `default`: it denies a pod that only it would deny."""
        pod = {
            "metadata": {
                "name": "is-the-webhook-called",
                "annotations": {"scheduling.koordinator.sh/numa-topology-spec": "not JSON"},
            },
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        }
        try:
            self._plane.api.create("/api/v1/namespaces/default/pods?dryRun=All", pod)
        except ApiError as error:
            return "admission webhook" in error.message
        return False

    def wait_until_called(self) -> bool:
        """Wait for `is_called`. False if that never happens: the values may exclude the namespace `default`."""
        try:
            return bool(self._plane.wait_for("the first call", self.is_called, CALLED_SECONDS))
        except NotReadyError:
            return False

    def remove(self) -> None:
        """Uninstall the chart and end the replicas. They need not drain, because they are not called any more."""
        # Without hooks: nothing runs their Job here, and tests delete their own pods.
        self._plane.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", "--no-hooks")
        for replica in self.replicas:
            replica.process.kill()
            del self._plane.guests[replica.name]
        with contextlib.suppress(ApiError):  # there is none when no replica has ever been ready
            self._plane.api.delete(LEASE)


@contextlib.contextmanager
def local_webhook(
    plane: ControlPlane,
    *,
    replicas: int = 1,
    values: Values | None = None,
    chart: Path = CHART,
    images: Images | None = None,
    client_certificates: bool = True,
) -> Iterator[LocalWebhook]:
    """Install the chart with these values and run its replicas here; on exit uninstall it and end them.

    chart, images: another chart, and programs by the tags of images that it or a later upgrade names.
    client_certificates: whether the API server has to show its own, as in clusters whose operator configures it.
    """
    with contextlib.ExitStack() as stack:
        services = stack.enter_context(Services.following(plane.api, NAMESPACE))
        webhook = LocalWebhook(
            plane, values, services, chart=chart, images=images, client_certificates=client_certificates
        )
        if replicas == 1:
            stack.callback(webhook.remove)
            wanted = free_ports()
            webhook.install(wanted.port, wanted.port)
            replica = webhook.add_replica(wanted)
            replica.wait_until_ready()
            if replica.backend != wanted:
                webhook.install(replica.backend.port, replica.backend.port)
        else:
            ports = [
                stack.enter_context(relay(partial(webhook.services.endpoints, service)))
                for service in (RELEASE, BIND_SERVICE)
            ]
            stack.callback(webhook.remove)
            webhook.install(*ports)
            for replica in [webhook.add_replica(free_ports()) for _ in range(replicas)]:
                replica.wait_until_ready()
        plane.wait_for("a leader", lambda: webhook.leaders)
        yield webhook


def in_sections(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The chart's value `settings` with these, whose names are unique in all sections."""
    advanced = {to_camel(field) for field in AdvancedSettings.model_fields}
    return {
        **{name: value for name, value in settings.items() if name not in advanced},
        "advanced": {name: value for name, value in settings.items() if name in advanced},
    }


def free_ports() -> Backend:
    """Ports that were free a moment ago. Unlike the control plane, the webhook cannot share reserved ports."""
    ports = {"page_port": free_port(), "metrics_tls_port": free_port(), "peer_port": free_port()}
    return Backend(port=free_port(), health_port=free_port(), **ports)


def container_environment(container: Mapping[str, Any], pod_name: str) -> dict[str, str]:
    """A container's environment as the kubelet would make it. Raises `ValueError` for what only a kubelet knows."""
    downward = {"metadata.name": pod_name, "metadata.namespace": NAMESPACE, "status.podIP": "127.0.0.1"}
    environment = {}
    for variable in container.get("env", ()):
        source = variable.get("valueFrom")
        field = (source or {}).get("fieldRef", {}).get("fieldPath")
        if source and field not in downward:
            raise ValueError(f"{variable['name']}: a local process cannot know {json.dumps(source)}")
        environment[variable["name"]] = downward[field] if source else variable.get("value", "")
    return environment
