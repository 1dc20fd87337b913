"""Allocations that tenants forge where the webhook is not called: refused in process, and without that not believed.

Each attack was seen to work once: six pods without requests took every NUMA node of the cluster.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import NUMA, Pods, pod, wait_until_known
from tests.cluster.nodes import Machine
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

OPT_IN = {"namespaceSelector": {"matchLabels": {"topology-webhook.dev/enabled": "true"}}}
STATUS = "scheduling.koordinator.sh/resource-status"
# n0..n2 ── NUMA 0 [16]  NUMA 1 [16]      [free cpus]
MACHINES = [Machine(f"n{number}", free=(16, 16)) for number in range(3)]


def forged(name: str, node: str, numa: int, annotation: str = NUMA, **spec: Any) -> dict[str, Any]:
    """A pod without requests whose annotation says that it has all of a NUMA node."""
    zones = [{"node": numa, "resources": {"cpu": "16", "memory": "64Gi"}}]
    allocation = {"node": node, "numaNodeResources": zones} if annotation == NUMA else {"numaNodeResources": zones}
    metadata = {"name": name, "annotations": {annotation: json.dumps(allocation)}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "none"}], **spec}}


@pytest.fixture
def excluded(control_plane: ControlPlane, namespace: str) -> Iterator[Pods]:
    """The pods of a namespace that the webhook is not called for."""
    name = f"{namespace}-excluded"
    control_plane.create_namespace(name)
    yield Pods(control_plane, name)
    control_plane.delete_namespace(name)


def running(plane: ControlPlane, namespace: str, *, policy: bool) -> Any:
    plane.kubectl("label", "namespace", namespace, "topology-webhook.dev/enabled=true")
    values = {"webhook": OPT_IN, "settings": QUICK_LEASE, "admissionPolicy": {"enabled": policy}}
    return local_webhook(plane, values=values)


def six(make: Callable[[str, str, int], dict[str, Any]]) -> list[dict[str, Any]]:
    return [make(f"forged-{node}-{numa}", node, numa) for node in ("n0", "n1", "n2") for numa in (0, 1)]


# Neither can be bound: one waits for another gate, the other for a node that is not there.
HELD: dict[str, dict[str, Any]] = {
    "gate": {"schedulingGates": [{"name": "example.com/hold"}]},
    "selector": {"nodeSelector": {"never": "there"}},
}
KINDS: dict[str, Callable[[str, str, int], dict[str, Any]]] = {
    **{f"unbound-{why}": partial(forged, **held) for why, held in HELD.items()},
    "bound": lambda name, node, numa: forged(name, node, numa, nodeName=node),
    "bound-koordinator": lambda name, node, numa: forged(name, node, numa, STATUS, nodeName=node),
}


@pytest.mark.parametrize("kind", KINDS)
def test_six_forged_pods_where_nobody_is_called_take_nothing_even_without_the_policy(
    control_plane: ControlPlane, known: Callable[..., None], pods: Pods, excluded: Pods, kind: str
) -> None:
    with running(control_plane, pods.namespace, policy=False):
        known(*MACHINES)
        for raw in six(KINDS[kind]):
            excluded.create(raw)
        _six_honest_pods_are_bound(pods)


@pytest.mark.parametrize("kind", KINDS)
def test_six_pods_forged_while_every_replica_was_down_take_nothing_even_without_the_policy(
    control_plane: ControlPlane, known: Callable[..., None], pods: Pods, kind: str
) -> None:
    with running(control_plane, pods.namespace, policy=False) as webhook:
        known(*MACHINES)
        _while_down(webhook, lambda: [pods.create(raw) for raw in six(KINDS[kind])])
        wait_until_known(pods, 3)
        _six_honest_pods_are_bound(pods)


def _while_down(webhook: LocalWebhook, do: Callable[[], object]) -> None:
    (replica,) = webhook.replicas
    replica.process.stop()
    do()
    replica.start(replica.backend)
    replica.wait_until_ready()


def _six_honest_pods_are_bound(pods: Pods) -> None:
    names = [f"honest-{number}" for number in range(6)]
    for name in names:
        pods.create(pod(name, cpu=16))
    pods.wait_until_bound(*names)
