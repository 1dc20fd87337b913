"""Pods that request NUMA nodes, and their state: for placement tests on the real control plane."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.cluster.api import ApiError
from tests.cluster.nodes import Machine, machines, publish_all
from webhook.model.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.cluster.control_plane import ControlPlane

SPEC = "scheduling.koordinator.sh/numa-topology-spec"
NUMA = "topology-webhook.dev/numa"
PLACEMENT = "topology-webhook.dev/placement"
GATE = "topology-webhook.dev/placement"
SINGLE = {SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
GIB = 2**30


def pod(name: str, cpu: int = 8, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A Guaranteed pod of one container; 1Gi of memory."""
    amounts = {"cpu": str(cpu), "memory": "1Gi"}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "metadata": {"name": name, "annotations": {**SINGLE, **(annotations or {})}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def is_gated(raw: dict[str, Any]) -> bool:
    return GATE in {gate["name"] for gate in raw["spec"].get("schedulingGates", ())}


class Pods:
    """The pods of one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, raw: dict[str, Any]) -> dict[str, Any]:
        created: dict[str, Any] = self.plane.api.create(self.path, raw)
        return created

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.api.get(f"{self.path}/{name}")
        return found

    def all(self) -> dict[str, dict[str, Any]]:
        """By name."""
        return {raw["metadata"]["name"]: raw for raw in self.plane.api.get(self.path)["items"]}

    def delete(self, *names: str) -> None:
        for name in names:
            self.plane.api.delete(f"{self.path}/{name}", {"gracePeriodSeconds": 0})

    def bound(self) -> dict[str, str]:
        """Pod name -> node."""
        nodes = {name: raw["spec"].get("nodeName", "") for name, raw in self.all().items()}
        return {name: node for name, node in nodes.items() if node}

    def gated(self) -> set[str]:
        return {name for name, raw in self.all().items() if is_gated(raw)}

    def update_is_refused(self, name: str, text: str) -> bool:
        """Whether an update of the pod is refused with this text, by a dry run."""
        try:
            self.plane.api.patch(f"{self.path}/{name}?dryRun=All", {"metadata": {"annotations": {"x": "y"}}})
        except ApiError as error:
            return text in error.message
        return False

    def wait_until_bound(self, *names: str) -> None:
        self.plane.wait_for(f"{', '.join(names[:5])} bound", lambda: set(names) <= self.bound().keys())

    def allocation(self, name: str) -> tuple[str, list[int]]:
        """The node and NUMA nodes in the pod's allocation."""
        allocation = json.loads(self.get(name)["metadata"]["annotations"][NUMA])
        return allocation["node"], [entry["node"] for entry in allocation["numaNodeResources"]]

    def wait_until_told(self, name: str, reason: str, text: str = "") -> str:
        """Wait for an Event with this reason and text, and return its note; with several, any."""
        path = f"/api/v1/namespaces/{self.namespace}/events?fieldSelector=involvedObject.name={name},reason={reason}"

        def note() -> str:
            notes: list[str] = [event["message"] for event in self.plane.api.get(path)["items"]]
            return next((note for note in notes if text in note), "")

        return str(self.plane.wait_for(f"an Event {reason} of {name} that says {text!r}", note))

    def wait_until_says(self, name: str, text: str) -> None:
        """Wait until the pod's own placement message has this text, which may be a moment after its Event."""
        self.plane.wait_for(
            f"{name} to say {text!r}", lambda: text in self.get(name)["metadata"]["annotations"].get(PLACEMENT, "")
        )


def gated_crowd(pods: Pods, known: Callable[..., None], nodes: int, count: int) -> Sequence[Machine]:
    """Create `count` pods of 8 CPUs that wait for `nodes` full machines. Returns the machines as they are when free.

    Each machine has 4 NUMA nodes of 16 CPUs: room for 8 of the pods.
    """
    fleet = machines(nodes, 4, prefix="gate")
    known(*(replace(one, free=(0,) * 4) for one in fleet))
    pods.plane.api.in_parallel(partial(pods.create, pod(f"p{number:03}")) for number in range(count))
    assert len(pods.gated()) == count
    return fleet


def in_the_middle(pods: Pods, fleet: Sequence[Machine], fault: Callable[[], None]) -> None:
    """Free half of a crowd's machines, wait until some pods are ungated, inject the fault, then free the other half."""
    count, half = len(pods.gated()), len(fleet) // 2
    publish_all(pods.plane.api, fleet[:half])
    pods.plane.wait_for("some to go", lambda: len(pods.gated()) < count)
    fault()
    publish_all(pods.plane.api, fleet[half:])


@contextlib.contextmanager
def scheduler_paused(plane: ControlPlane) -> Iterator[None]:
    """Pause the scheduler within this context: assigned pods are not bound."""
    (scheduler,) = (process for process in plane.processes if process.name == "kube-scheduler")
    scheduler.pause()
    try:
        yield
    finally:
        scheduler.resume()


def wait_until_known(pods: Pods, nodes: int) -> None:
    """Wait until the webhook knows this number of machines, and the NUMA nodes of each."""

    def known() -> bool:
        try:
            tried = pods.plane.api.create(f"{pods.path}?dryRun=All", pod("any", cpu=1))
        except ApiError as error:  # it denies the pod while it knows no NUMA nodes at all
            text = error.message
        else:
            text = tried["metadata"]["annotations"].get(PLACEMENT, "")
        return f"of {counted(nodes, 'node')} fit" in text and "no NUMA topology known" not in text

    pods.plane.wait_for(f"the webhook to know {nodes} machines", known)
