"""The leader deletes rejected pods some time after their rejection, if a controller has replaced them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.gated import SINGLE, Pods, pod
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from tests.integration.static_pods import Site, create_replica_set, create_topology, in_phase, surprising_machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

DELETED = "topology_webhook_rejected_pods_deleted_total"


@pytest.fixture
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    settings = {**QUICK_LEASE, "deleteRejectedAfterSeconds": 1}
    with local_webhook(control_plane, replicas=1, values={"settings": settings}) as webhook:
        yield webhook


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


@pytest.fixture
def site(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Site]:
    with surprising_machine(control_plane, tmp_path) as site:
        yield site
        control_plane.delete_namespace(namespace)


def test_a_rejected_pod_of_a_controller_is_deleted_and_one_without_stays(
    control_plane: ControlPlane, webhook: LocalWebhook, pods: Pods, site: Site
) -> None:
    # It names its node, so no scheduler and no guard stands between it and the kubelet.
    pods.create(pod("bare", cpu=5, annotations=SINGLE, nodeName="k0"))
    control_plane.wait_for("it to be rejected", lambda: in_phase(pods, "Failed") == ["bare"])
    create_replica_set(pods)
    control_plane.wait_for("k0 to reject a pod of the ReplicaSet", lambda: len(site.rejected()) == 2)
    create_topology(control_plane, "k1")
    control_plane.wait_for("the next pod to run", lambda: in_phase(pods, "Running"))
    control_plane.wait_for("the rejected one to be gone", lambda: in_phase(pods, "Failed") == ["bare"])
    (replica,) = webhook.replicas
    control_plane.wait_for("the count", lambda: replica.metrics()[DELETED] == 1.0)
    assert len(pods.all()) == 2
