"""What kubelets and kube-proxy do for the chart's Deployment, so that local processes are found as pods are.

1. Each process has a Pod object in the API server, with the labels and the container of the Deployment's template. The
   Pod names a scheduler that does not exist, so that it takes no room on the nodes of a test.
2. As a kubelet would, one thread per process probes /readyz and writes the Pod's Ready condition when it changes.
3. As kube-proxy would, one thread follows the namespace's Services and Pods: a Service's endpoints are the ready Pods
   that its selector matches. A relay per Service (relay.py) takes connections there.
"""

from __future__ import annotations

import contextlib
import threading
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cluster.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.cluster.api import Api

# By the chart's values a kubelet probes every five seconds, which is too slow for tests.
POLL_SECONDS = 0.2
PROBE_SECONDS = 1.0


class Backend(NamedTuple):
    """Loopback ports of one process."""

    port: int
    health_port: int
    page_port: int = 0
    """0: any free one, which its log names."""
    metrics_tls_port: int = 0
    peer_port: int = 0

    def is_ready(self) -> bool:
        """Whether /readyz answers 200 in time."""
        url = f"http://127.0.0.1:{self.health_port}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=PROBE_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class Services:
    """The Pods and Services of a namespace that have local processes. Use `following()`."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}"
        self._backends: dict[str, Callable[[], Backend]] = {}
        self._templates: dict[str, Mapping[str, Any]] = {}
        self._ready: dict[str, bool] = {}
        self._endpoints: dict[str, list[int]] = {}
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    @classmethod
    @contextlib.contextmanager
    def following(cls, api: Api, namespace: str) -> Iterator[Services]:
        """Follow Services and Pods; at the end the Pods are deleted."""
        services = cls(api, namespace)
        services._repeat(services._follow)
        try:
            yield services
        finally:
            services._ended.set()
            for thread in services._threads:
                thread.join()
            for name in services._backends:
                with contextlib.suppress(ApiError):
                    api.delete(f"{services._path}/pods/{name}", {"gracePeriodSeconds": 0})

    def add_pod(self, name: str, template: Mapping[str, Any], backend: Callable[[], Backend]) -> None:
        """Create a Pod and keep its Ready condition up to date. backend: returns where its process listens now."""
        self._templates[name] = template
        self._create_pod(name)
        self._backends[name] = backend

        def probe() -> None:
            ready = backend().is_ready()
            if self._ready.get(name) != ready:
                self._write_ready(name, ready)
                self._ready[name] = ready

        self._repeat(probe)

    def missing_pods(self) -> set[str]:
        """The names of the Pods that were deleted from outside."""
        there = {pod["metadata"]["name"] for pod in self._api.get(f"{self._path}/pods")["items"]}
        return self._backends.keys() - there

    def replace_pod(self, name: str, template: Mapping[str, Any] | None = None) -> None:
        """Replace a Pod by one of the same name, as a StatefulSet would. template: None keeps the old one."""
        if template is not None:
            self._templates[name] = template
        with contextlib.suppress(ApiError):  # it is deleted already
            self._api.delete(f"{self._path}/pods/{name}", {"gracePeriodSeconds": 0})
        self._create_pod(name)
        self._ready.pop(name, None)

    def pod(self, name: str) -> Any:
        """The Pod object of a process."""
        return self._api.get(f"{self._path}/pods/{name}")

    def endpoints(self, service: str) -> Sequence[int]:
        """Ports of the processes behind a Service, as of a moment ago."""
        return self._endpoints.get(service, [])

    def _create_pod(self, name: str) -> None:
        template = self._templates[name]
        spec = {**template["spec"], "schedulerName": "none-a-local-process-runs-it"}
        self._api.create(
            f"{self._path}/pods", {"metadata": {"name": name, "labels": template["metadata"]["labels"]}, "spec": spec}
        )

    def _write_ready(self, name: str, ready: bool) -> None:
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        started = {"ready": ready, "restartCount": 0, "imageID": "", "state": {"running": {}}}
        containers = [
            {"name": each["name"], "image": each["image"], **started}
            for each in self._templates[name]["spec"]["containers"]
        ]
        status = {"phase": "Running", "conditions": [condition], "containerStatuses": containers}
        self._api.request(
            "PATCH", f"{self._path}/pods/{name}/status", {"status": status}, "application/strategic-merge-patch+json"
        )

    def _follow(self) -> None:
        pods = [pod for pod in self._api.get(f"{self._path}/pods")["items"] if _is_ready(pod)]
        for service in self._api.get(f"{self._path}/services")["items"]:
            selector = service["spec"].get("selector") or {}
            names = [pod["metadata"]["name"] for pod in pods if selector.items() <= pod["metadata"]["labels"].items()]
            ports = [self._backends[name]().port for name in names if selector and name in self._backends]
            self._endpoints[service["metadata"]["name"]] = ports

    def _repeat(self, do: Callable[[], None]) -> None:
        """Call `do` every POLL_SECONDS in its own thread. Requests that the API server rejects are retried."""

        def loop() -> None:
            while not self._ended.wait(POLL_SECONDS):
                with contextlib.suppress(ApiError, OSError, HTTPException):
                    do()

        self._threads.append(threading.Thread(target=loop, name=f"services {do.__qualname__}"))
        self._threads[-1].start()


def _is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a Pod is an endpoint: ready, and not about to end."""
    conditions = pod["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
