"""Racks of machines, a webhook that knows them, and pods: for group tests on the real control plane."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.cluster.api import ApiError
from tests.cluster.gated import pod
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, machines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.gated import Pods
    from tests.cluster.webhook_process import LocalWebhook

TOPOLOGY = "/apis/kai.scheduler/v1alpha1/topologies"
RACKS = {
    "kai.scheduler/topology": "racks",
    "kai.scheduler/topology-required-placement": "rack",
}


@contextlib.contextmanager
def topology_of_racks(control_plane: ControlPlane) -> Iterator[None]:
    """The Topology `racks` of zones and racks exists within this context."""
    levels = [{"nodeLabel": ZONE_LABEL}, {"nodeLabel": RACK_LABEL}]
    control_plane.api.create(
        TOPOLOGY,
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "racks"},
            "spec": {"levels": levels},
        },
    )
    try:
        yield
    finally:
        control_plane.api.delete(f"{TOPOLOGY}/racks")


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane, shared_webhook: LocalWebhook) -> Iterator[LocalWebhook]:
    with topology_of_racks(control_plane):
        control_plane.wait_for("the topology to be known", lambda: _is_known(control_plane))
        yield shared_webhook


def _is_known(control_plane: ControlPlane) -> bool:
    """Whether the webhook knows the topology: else it denies a pod that names it."""
    try:
        control_plane.api.create("/api/v1/namespaces/default/pods?dryRun=All", pod("in-a-rack", annotations=RACKS))
    except ApiError:
        return False
    return True


@pytest.fixture
def racks(known: Callable[..., None]) -> Callable[[int, int], None]:
    """A function that creates racks of 16 nodes and waits until the webhook knows them. Each NUMA node has 16 CPUs."""

    def create(count: int, numa_nodes: int = 4) -> None:
        known(*machines(count * 16, numa_nodes, prefix="gang"))

    return create


def rack_of(pods: Pods, name: str) -> str:
    node = pods.get(name)["spec"]["nodeName"]
    return str(pods.plane.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"][RACK_LABEL])


def racks_of(pods: Pods, group: str) -> set[str]:
    return {rack_of(pods, name) for name in pods.bound() if name.startswith(f"{group}-")}
