"""What a cluster autoscaler looks for stands in pods behind the gate, and kube-scheduler leaves it there.

No autoscaler runs here: the test adds the nodes. What autoscalers look for is the condition PodScheduled alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import PLACEMENT, Pods, is_gated, pod
from tests.cluster.nodes import NODES, TOPOLOGIES, Machine, delete_nodes
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

POOL = {"cloud.google.com/gke-nodepool": "blue"}
# pool-0 ── NUMA 0 [3 of 16 free]  NUMA 1 [3 of 16 free]
FULL = Machine("pool-0", free=(3, 3), labels=POOL)
NEW = Machine("pool-1", free=(16, 16), labels=POOL)


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    values = {"settings": {**QUICK_LEASE, "autoscaler": "ClusterAutoscaler"}}
    with local_webhook(control_plane, values=values) as webhook:
        yield webhook


@pytest.fixture
def later_nodes(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Nodes that the test adds itself are gone afterwards. They outlive the pods of its namespace."""
    del namespace
    yield
    delete_nodes(control_plane.api, [NEW.name])


def scheduled(raw: dict[str, Any]) -> tuple[str, str]:
    """Status and reason of its condition PodScheduled."""
    found = (one for one in raw["status"].get("conditions") or () if one["type"] == "PodScheduled")
    return next(((one["status"], one.get("reason", "")) for one in found), ("", ""))


def wait_until_seen(pods: Pods, *names: str) -> None:
    """Wait until autoscalers see these pods."""
    pods.plane.wait_for(
        f"{', '.join(names)} to be seen",
        lambda: {scheduled(pods.get(name)) for name in names} == {("False", "Unschedulable")},
    )


def gang_member(name: str) -> dict[str, Any]:
    return pod(name, annotations={POD_GROUP_NAME: "g", MIN_MEMBER: "2"})


def test_a_pod_is_seen_behind_the_gate_and_bound_to_the_node_that_is_added(
    known: Callable[..., None], create_machines: Callable[..., None], pods: Pods
) -> None:
    known(FULL)
    created = pods.create(pod("a"))
    assert scheduled(created) == ("False", "SchedulingGated")
    wait_until_seen(pods, "a")
    pods.wait_until_says("a", "cluster-autoscaler is asked for a node of node group blue")
    pods.wait_until_told("a", "WaitingForPlacement", "cluster-autoscaler is asked for a node of node group blue")
    assert is_gated(pods.get("a"))
    assert "a" not in pods.bound()
    create_machines(NEW)
    pods.wait_until_bound("a")
    assert pods.allocation("a")[0] == "pool-1"
    assert scheduled(pods.get("a")) == ("True", "")


def test_a_pod_that_no_node_of_a_group_could_take_is_not_seen(known: Callable[..., None], pods: Pods) -> None:
    # alone ── NUMA 0 [3 of 32 free]  NUMA 1 [3 of 32 free], in no group
    known(FULL, Machine("alone", free=(3, 3), cpus=32))
    pods.create(pod("small"))
    pods.create(pod("large", 20))
    wait_until_seen(pods, "small")
    pods.wait_until_says("large", "cluster-autoscaler is not asked for a node: no node like those of a node group")
    assert scheduled(pods.get("large")) == ("False", "SchedulingGated")


def test_a_gang_is_seen_once_it_is_complete_and_no_longer_when_it_is_not(
    known: Callable[..., None], pods: Pods
) -> None:
    known(FULL)
    pods.create(gang_member("a"))
    pods.wait_until_says("a", "1 of the 2 pods that must start together are there")
    assert scheduled(pods.get("a")) == ("False", "SchedulingGated")
    pods.create(gang_member("b"))
    wait_until_seen(pods, "a", "b")
    pods.delete("b")
    pods.plane.wait_for("the mark to be removed", lambda: scheduled(pods.get("a")) == ("False", "SchedulingGated"))
    assert is_gated(pods.get("a"))


@pytest.mark.usefixtures("later_nodes")
def test_a_pod_waits_for_the_numa_nodes_of_a_new_node_and_stays_visible(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(FULL)
    pods.create(pod("a"))
    wait_until_seen(pods, "a")
    control_plane.api.create(NODES, NEW.node())
    pods.plane.wait_for("the new node to be known", lambda: "of 2 nodes" in placement_of_another(pods))
    assert scheduled(pods.get("a")) == ("False", "Unschedulable")
    assert is_gated(pods.get("a"))
    control_plane.api.create(TOPOLOGIES, NEW.topology())
    pods.wait_until_bound("a")
    assert pods.allocation("a")[0] == "pool-1"


def placement_of_another(pods: Pods) -> str:
    """What a pod like it would be told at its creation."""
    tried = pods.plane.api.create(f"{pods.path}?dryRun=All", pod("other"))
    return str(tried["metadata"]["annotations"].get(PLACEMENT, ""))
