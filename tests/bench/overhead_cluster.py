"""The clusters of the overhead bench: one namespace a way of admission, and bursts of pods into each.

    API server ── overhead-none ── nobody is asked
               ├─ overhead-noop ── a Go webhook that allows everything (tests/cluster/controlplane/overhead)
               ├─ overhead-gate ── one that adds a gate and an annotation to everything
               └─ overhead-ours ── the chart, for as long as it is installed

Each webhook is asked about its own namespace only, so that rounds can go from one to the next without a change of
configuration.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cluster.api import ApiError
from tests.cluster.gated import PLACEMENT, pod
from tests.cluster.pki import Servers
from tests.cluster.ports import free_port
from tests.cluster.process import Process
from tests.cluster.relay import relay
from tests.cluster.webhook_process import local_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.webhook_process import LocalWebhook

WAYS = ("none", "noop", "gate", "ours")
ALIKE = ("none", "noop", "ours")
PREFIX = "overhead-"
CLIENTS = 32
# Somebody else's gate: the pod is created, and nothing comes after that.
HELD: dict[str, Any] = {"schedulingGates": [{"name": "example.com/held"}]}
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PATIENCE = "60s"
LONG_PATIENCE_SECONDS = 600.0
POLL_SECONDS = 0.2


class Setup(NamedTuple):
    """How our webhook runs."""

    gate: str
    replicas: int
    manage: str = "Annotated"
    unmanaged: bool = False
    """Whether only pods that it leaves alone are measured."""


class Burst(NamedTuple):
    """The results of one burst of pods."""

    creates_per_second: float
    create_ms: tuple[float, float]
    """p50, p99."""
    bound: int
    bound_ms: tuple[float, float]
    """p50, p99."""
    cpu_us: dict[str, float]
    """CPU time a pod, by program."""
    seconds: float
    """From the start of the client until all pods were created, or bound if that was awaited."""


def namespace(way: str) -> str:
    return PREFIX + way


@contextlib.contextmanager
def namespaces(plane: ControlPlane) -> Iterator[None]:
    for way in WAYS:
        plane.create_namespace(namespace(way))
        plane.api.patch(f"/api/v1/namespaces/{namespace(way)}", {"metadata": {"labels": {"overhead": way}}})
    try:
        yield
    finally:
        for way in WAYS:
            plane.delete_namespace(namespace(way))


@contextlib.contextmanager
def go_webhooks(plane: ControlPlane, folder: Path, *, relayed: bool) -> Iterator[None]:
    """The two webhooks in Go. `relayed`: behind a relay, as a webhook with several replicas is here.

    Ours must answer already: the patch is as long as its own.
    """
    patch = folder / "patch.json"
    mutated_pod = _tried(plane, "ours")
    assert mutated_pod is not None
    # The names are other ones: the controller would take the gate for its own.
    gate = {"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": "gates.example.com/placement"}}
    text = mutated_pod["metadata"]["annotations"][PLACEMENT]
    annotation = {"op": "add", "path": "/metadata/annotations/gates.example.com~1placement", "value": text}
    patch.write_text(json.dumps([gate, annotation]))
    webhook = partial(_go_webhook, plane, folder, relayed=relayed)
    with webhook("noop"), webhook("gate", patch):
        yield


@contextlib.contextmanager
def _go_webhook(
    plane: ControlPlane, folder: Path, way: str, patch: Path | None = None, *, relayed: bool
) -> Iterator[None]:
    servers = Servers(folder / f"pki-{way}")
    serving = servers.issue(way)
    port = free_port()
    with contextlib.ExitStack() as stack:
        called = stack.enter_context(relay(lambda: [port])) if relayed else port
        plane.api.create(CONFIGURATIONS, _configuration(way, called, servers.ca))
        stack.callback(plane.api.delete, f"{CONFIGURATIONS}/{way}")
        # Nobody answers yet: so one sees when the API server knows that it is to ask.
        plane.wait_for(f"the {way} webhook to count", lambda: _tried(plane, way) is None)
        flags = [f"--address=127.0.0.1:{port}", f"--certificate={serving.certificate}", f"--key={serving.key}"]
        if patch:
            flags.append(f"--patch={patch}")
        process = Process(f"{way}-webhook", [plane.assets["noop-webhook"], *flags], folder / f"{way}.log")
        stack.callback(process.stop)
        plane.guests[process.name] = process
        stack.callback(plane.guests.pop, process.name)
        plane.wait_for(f"the {way} webhook to answer", lambda: _tried(plane, way) is not None)
        yield


def _configuration(way: str, port: int, authority: Path) -> dict[str, Any]:
    bundle = base64.b64encode(authority.read_bytes()).decode()
    webhook = {
        "name": f"{way}.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "namespaceSelector": {"matchLabels": {"overhead": way}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
    }
    return {"metadata": {"name": way}, "webhooks": [webhook]}


def _tried(plane: ControlPlane, way: str) -> dict[str, Any] | None:
    """Create the pod as a dry run. None if it is denied."""
    try:
        tried: dict[str, Any] = plane.api.create(
            f"/api/v1/namespaces/{namespace(way)}/pods?dryRun=All", pod("tried", cpu=4, **HELD)
        )
    except ApiError:
        return None
    return tried


@contextlib.contextmanager
def our_webhook(plane: ControlPlane, folder: Path, setup: Setup, nodes: int) -> Iterator[LocalWebhook]:
    values = folder / "values.yaml"
    selector = {"matchLabels": {"overhead": "ours"}}
    settings = {"gate": setup.gate, "manage": setup.manage}
    values.write_text(json.dumps({"settings": settings, "webhook": {"namespaceSelector": selector}}))
    with local_webhook(plane, replicas=setup.replicas, values=values) as webhook:
        plane.wait_for("our webhook to know the machines", partial(_is_mutated, plane, nodes))
        yield webhook


def _is_mutated(plane: ControlPlane, nodes: int) -> bool:
    mutated_pod = _tried(plane, "ours")
    return mutated_pod is not None and f"{nodes} of {nodes} nodes" in mutated_pod["metadata"]["annotations"].get(
        PLACEMENT, ""
    )


def burst(
    plane: ControlPlane,
    folder: Path,
    way: str,
    raw: dict[str, Any],
    pods: int,
    rate: float = 0.0,
    *,
    until_bound: bool = False,
) -> Burst:
    """Create the pods: all at once, or with a rate one after the other until each has a node. Then delete them.

    until_bound: wait for the nodes of pods that are created at once, too.
    """
    template = folder / "pod.json"
    template.write_text(json.dumps(raw))
    programs = {process.name: process for process in [*plane.processes, *plane.guests.values()]}
    before = {name: process.cpu_seconds for name, process in programs.items()}
    flags = {
        "kubeconfig": plane.kubeconfig,
        "namespace": namespace(way),
        "pod": template,
        "clients": CLIENTS,
        "pods": pods,
        "rate": rate,
        "patience": PATIENCE if rate else "0s",
    }
    argv = [str(plane.assets["pod-load"]), *(f"--{name}={value}" for name, value in flags.items())]
    began = time.monotonic()
    seen = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    path = f"/api/v1/namespaces/{namespace(way)}/pods"
    bound = pods - _left_unbound(plane, path) if until_bound else seen["bound"]
    seconds = time.monotonic() - began
    used = {name: process.cpu_seconds - before[name] for name, process in programs.items()}
    used["pod-load"] = seen["cpu_seconds"]
    if until_bound:  # all of a collection in one request takes the API server longer than it has patience for
        plane.api.in_parallel(partial(_delete, plane, f"{path}/p-{number}") for number in range(pods))
    plane.api.delete(path, {"gracePeriodSeconds": 0})
    plane.wait_for("the pods to be gone", lambda: not plane.api.get(f"{path}?limit=1")["items"])
    return Burst(
        pods / seen["seconds"],
        (seen["create_ms"]["p50"], seen["create_ms"]["p99"]),
        bound,
        (seen["bound_ms"]["p50"], seen["bound_ms"]["p99"]),
        {name: spent / pods * 1e6 for name, spent in used.items()},
        seconds,
    )


def _left_unbound(plane: ControlPlane, path: str) -> int:
    """Wait until all pods have a node; returns how many have none after a long time.

    Not by a watch: in a burst on a busy machine the API server ends watches that read too slowly.
    """
    unbound, deadline = f"{path}?fieldSelector=spec.nodeName%3D", time.monotonic() + LONG_PATIENCE_SECONDS
    while plane.api.get(f"{unbound}&limit=1")["items"]:
        if time.monotonic() > deadline:
            return len(plane.api.get(unbound)["items"])
        time.sleep(POLL_SECONDS)
    return 0


def _delete(plane: ControlPlane, path: str) -> None:
    with contextlib.suppress(ApiError):  # the pod was never created
        plane.api.delete(path, {"gracePeriodSeconds": 0})
