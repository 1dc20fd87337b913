"""Pods whose node is lost before they are bound, and pods that have waited long enough, on the real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import NUMA, PLACEMENT, SPEC, Pods, is_gated, pod, scheduler_paused
from tests.cluster.nodes import NODES, Machine
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    settings = {"gate": "Always", "stuckAfterSeconds": 1, "evictStuck": True, "ungateAfterSeconds": 6}
    with local_webhook(control_plane, values={"settings": settings}) as webhook:
        yield webhook


@pytest.fixture
def no_scheduler(control_plane: ControlPlane) -> Iterator[None]:
    """Pause the scheduler: an assigned pod is not bound."""
    with scheduler_paused(control_plane):
        yield


@pytest.mark.usefixtures("no_scheduler")
def test_a_placed_pod_whose_node_is_cordoned_is_evicted_if_a_controller_makes_a_new_one(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [8]   n1 ── NUMA 0 [8]
    known(Machine("n0", free=(8,)), Machine("n1", free=(8,)))
    raw: dict[str, Any] = pod("")
    labels = {"app": "a"}
    template = {"metadata": {"annotations": {SPEC: raw["metadata"]["annotations"][SPEC]}, "labels": labels}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": {**template, "spec": raw["spec"]}}
    path = f"/apis/apps/v1/namespaces/{pods.namespace}/replicasets"
    control_plane.api.create(path, {"metadata": {"name": "a"}, "spec": spec})

    def assigned() -> list[str]:
        return [name for name, one in pods.all().items() if NUMA in one["metadata"]["annotations"]]

    control_plane.wait_for("its pod to be placed", assigned)
    (first,) = assigned()
    node, _ = pods.allocation(first)
    control_plane.api.patch(f"{NODES}/{node}", {"spec": {"unschedulable": True}})
    (second,) = control_plane.wait_for("another pod", lambda: [name for name in assigned() if name != first])
    assert pods.allocation(second)[0] == ({"n0", "n1"} - {node}).pop()
    told = f"node {node}, on which it was placed, can no longer take it"
    pods.wait_until_told(first, "EvictedForRescheduling", told)


@pytest.mark.usefixtures("no_scheduler")
def test_a_pod_that_nobody_makes_again_is_told_about(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(Machine("n0", free=(8,)), Machine("n1", free=(8,)))
    pods.create(pod("a"))
    control_plane.wait_for("it to be placed", lambda: NUMA in pods.get("a")["metadata"]["annotations"])
    node, _ = pods.allocation("a")
    control_plane.api.delete(f"{NODES}/{node}")
    pods.wait_until_told("a", "Stuck", f"node {node}, on which it was placed, is gone")


def test_a_pod_that_has_waited_enough_is_ungated_and_kept_off_nodes_that_never_can_take_it(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # n0 ── NUMA 0 [2 of 16]   n1 ── NUMA 0 [2 of 4]
    known(Machine("n0", free=(2,)), Machine("n1", free=(2,), cpus=4))
    pods.create(pod("a"))
    control_plane.wait_for("it to be let go", lambda: not is_gated(pods.get("a")))
    raw = pods.get("a")
    assert NUMA not in raw["metadata"]["annotations"]
    assert raw["metadata"]["annotations"][PLACEMENT].startswith("ungated without an assignment after 6 s")
    (held,) = raw["spec"]["affinity"]["nodeAffinity"].values()
    (term,) = held["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1"]}]
    assert not pods.bound()
