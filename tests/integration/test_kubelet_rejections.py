"""Pods that kubelets reject are counted once over all replicas, by reason, and apart for managed and unmanaged pods.

The machines' kubelets are simulated, with the kubelet's own code.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.kubelets import Kubelets, even_machine, kubelets
from tests.cluster.webhook_process import QUICK_LEASE, Replica, local_webhook
from webhook.model.names import NUMA_TOPOLOGY_SPEC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

REJECTIONS = "topology_webhook_kubelet_rejections_total"
ASKS = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}


@pytest.fixture
def k0(control_plane: ControlPlane, namespace: str) -> Iterator[Kubelets]:
    # k0 ── NUMA 0 [8]  NUMA 1 [8]      [free cpus]
    with kubelets(control_plane, [even_machine("k0", cpus=8)]) as running:
        yield running
        control_plane.delete_namespace(namespace)


class Pods:
    """Pods that name their node: no scheduler and no guard stands between them and the kubelet."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name: str, annotations: dict[str, str], *, ends_in: str) -> None:
        container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": "5", "memory": "1Gi"}}}
        metadata = {"name": name, "annotations": annotations}
        self._plane.api.create(
            self._path, {"metadata": metadata, "spec": {"nodeName": "k0", "containers": [container]}}
        )
        self._plane.wait_for(f"{name} {ends_in}", partial(self._is, name, ends_in))

    def _is(self, name: str, phase: str) -> bool:
        status: dict[str, Any] = self._plane.api.get(f"{self._path}/{name}")["status"]
        return bool(status["phase"] == phase)


def counted(replica: Replica) -> tuple[float, float]:
    """Rejections of managed and of unmanaged pods that a replica has counted."""
    found = replica.metrics()
    reason = "TopologyAffinityError"
    managed, unmanaged = (
        found[f'{REJECTIONS}{{managed="{managed}",reason="{reason}"}}'] for managed in ("true", "false")
    )
    return managed, unmanaged


def test_the_leader_counts_pods_that_kubelets_reject_and_no_other_replica_does(
    control_plane: ControlPlane, namespace: str, k0: Kubelets
) -> None:
    pods = Pods(control_plane, namespace)
    with local_webhook(control_plane, replicas=2, values={"settings": QUICK_LEASE}) as webhook:
        (leader,) = webhook.leaders
        (other,) = set(webhook.replicas) - {leader}
        for name in ("a", "b"):
            pods.create(name, {}, ends_in="Running")
        pods.create("managed", ASKS, ends_in="Failed")
        for name in ("unmanaged-0", "unmanaged-1"):
            pods.create(name, {}, ends_in="Failed")
        control_plane.wait_for("the leader to count", lambda: counted(leader) == (1.0, 2.0))
        assert counted(other) == (0.0, 0.0)
        assert len(k0.events("rejected")) == 3
