"""With `repair: Gang`, a gang that lost a node and has no room left in its rack moves to another rack as a whole."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import SINGLE, Pods, pod
from tests.cluster.nodes import NODES, RACK_LABEL, ZONE_LABEL, Machine
from tests.cluster.racked import RACKS, topology_of_racks
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from webhook.model.names import LOST_NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

MOVED = "topology_webhook_gangs_moved_total"
MINIMUM = "topology-webhook.dev/min-member"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    settings = {"repair": "Gang", **QUICK_LEASE}
    with topology_of_racks(control_plane), local_webhook(control_plane, values={"settings": settings}) as webhook:
        yield webhook


def rack(name: str, *nodes: str) -> list[Machine]:
    """Machines with one NUMA node of 8 free CPUs each."""
    return [Machine(node, free=(8,), cpus=8, labels={ZONE_LABEL: "z", RACK_LABEL: name}) for node in nodes]


def create_gang(pods: Pods) -> None:
    """The ReplicaSet `g` of two pods of 8 CPUs, which start together in one rack."""
    raw: dict[str, Any] = pod("", cpu=8)
    labels = {"app": "g"}
    annotations = {**SINGLE, **RACKS, MINIMUM: "2"}
    template = {"metadata": {"annotations": annotations, "labels": labels}, "spec": raw["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{pods.namespace}/replicasets"
    pods.plane.api.create(path, {"metadata": {"name": "g"}, "spec": spec})


def lose_a_node(pods: Pods) -> str:
    """A node of the gang is not ready any more, and its pod is deleted, as by the taint manager. Returns the node."""
    name, node = min(pods.bound().items())
    status = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
    pods.plane.api.patch(f"{NODES}/{node}/status", {"status": status})
    pods.plane.wait_for("the node to be known as lost", partial(_is_known, pods, node))
    pods.delete(name)
    return node


def told(pods: Pods, reason: str) -> list[str]:
    """The notes of the namespace's Events with this reason."""
    events = pods.plane.api.get(f"/api/v1/namespaces/{pods.namespace}/events")["items"]
    return [event["message"] for event in events if event["reason"] == reason]


def _is_known(pods: Pods, node: str) -> bool:
    """Whether the webhook excludes the node: it fits no pod that asks for it."""
    raw = pod("probe", cpu=1, nodeSelector={"kubernetes.io/hostname": node})
    created: dict[str, Any] = pods.plane.api.create(f"{pods.path}?dryRun=All", raw)
    return "not ready" in created["metadata"]["annotations"].get("topology-webhook.dev/placement", "")


def test_it_moves_to_a_rack_that_holds_all_of_it(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    # r0 ── n0 [8]  n1 [8]   r1 ── n2 [8]  n3 [8]      [free cpus]
    racks = {"r0": {"n0", "n1"}, "r1": {"n2", "n3"}}
    known(*(machine for name, nodes in racks.items() for machine in rack(name, *sorted(nodes))))
    create_gang(pods)
    control_plane.wait_for("the gang to be bound", lambda: len(pods.bound()) == 2)
    (before,) = [name for name, nodes in racks.items() if set(pods.bound().values()) == nodes]
    (other,) = racks.keys() - {before}
    node = lose_a_node(pods)
    control_plane.wait_for("the gang to be in the other rack", lambda: set(pods.bound().values()) == racks[other])
    text = f"lost {node}, and its domain has no room for the lost pods; rack {other} holds all 2 pods"
    control_plane.wait_for("the Event", lambda: any(text in note for note in told(pods, "GangMoved")))
    counts = [replica.metrics()[MOVED] for replica in webhook.replicas]
    assert sum(counts) == 1.0


def test_it_stays_while_a_budget_protects_it_and_a_leader_that_started_later_moves_it(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    known(*rack("r0", "n0", "n1"), *rack("r1", "n2", "n3"))
    budget = {"metadata": {"name": "g"}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "g"}}}}
    control_plane.api.create(BUDGETS.format(pods.namespace), budget)
    create_gang(pods)
    control_plane.wait_for("the gang to be bound", lambda: len(pods.bound()) == 2)
    for name in pods.bound():
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        control_plane.api.patch(f"{pods.path}/{name}/status", {"status": status})
    lose_a_node(pods)
    (left,) = pods.bound()
    control_plane.wait_for("the Event", lambda: told(pods, "GangNotMoved"))
    assert left in pods.bound()
    control_plane.wait_for("the record of the loss", lambda: LOST_NODES in pods.get(left)["metadata"]["annotations"])
    (leader,) = webhook.leaders
    leader.process.kill()
    leader.start_again()
    control_plane.api.delete(f"{BUDGETS.format(pods.namespace)}/g")
    control_plane.wait_for("the gang to be elsewhere", lambda: len(pods.bound()) == 2 and left not in pods.bound())
    assert len(told(pods, "GangMoved")) > 0
