"""The condition `Placed` of pods, on the real control plane."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import PLACEMENT, Pods, pod, scheduler_paused
from tests.cluster.nodes import machines, publish_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane

PLACED = "topology-webhook.dev/Placed"


pytestmark = pytest.mark.usefixtures("shared_webhook")


def condition(pods: Pods, name: str) -> dict[str, Any]:
    conditions = pods.get(name)["status"].get("conditions") or ()
    return next((one for one in conditions if one["type"] == PLACED), {})


def has(pods: Pods, name: str, status: str, reason: str) -> bool:
    found = condition(pods, name)
    return (found.get("status"), found.get("reason")) == (status, reason)


def wait_for_placed(pods: Pods, name: str, status: str = "true") -> str:
    """`kubectl wait`, which ends as soon as the condition has this status."""
    wanted = f"--for=condition={PLACED}={status}"
    return pods.plane.kubectl("wait", wanted, f"pod/{name}", "--namespace", pods.namespace, "--timeout=120s")


def test_kubectl_waits_until_a_pod_is_placed(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    # one machine of 2 NUMA nodes, full
    fleet = machines(1, 2, prefix="one")
    known(*(replace(one, free=(0, 0)) for one in fleet))
    pods.create(pod("a"))
    assert "condition met" in wait_for_placed(pods, "a", "false")
    waits = condition(pods, "a")
    assert waits["reason"] == "NoSingleNUMANode"
    assert waits["message"] == pods.get("a")["metadata"]["annotations"][PLACEMENT]
    assert waits["message"].startswith("waiting: SingleNUMANode: none of 1 node fits now")
    publish_all(control_plane.api, fleet)
    assert "condition met" in wait_for_placed(pods, "a")
    placed = condition(pods, "a")
    assert placed["reason"] in {"Assigned", "Bound"}
    assert placed["message"].startswith("placed on one-0000, NUMA ")
    pods.wait_until_bound("a")
    scheduled = [one["type"] for one in pods.get("a")["status"]["conditions"]]
    assert {"PodScheduled", PLACED} <= set(scheduled)


def test_a_pod_that_fits_at_once_is_placed_and_one_that_only_the_scheduler_can_place_when_it_is_bound(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(*machines(1, 2, prefix="one"))
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}
    }}}}]  # fmt: skip
    with scheduler_paused(control_plane):
        pods.create(pod("assigned"))
        pods.create(pod("delegated", volumes=volumes))
        wait_for_placed(pods, "assigned")
        assert condition(pods, "assigned")["reason"] == "Assigned"
        control_plane.wait_for("its state", partial(has, pods, "delegated", "False", "WaitingForScheduler"))
        assert condition(pods, "delegated")["message"].startswith("the scheduler chooses the node, for its volumes")
    pods.wait_until_bound("assigned")
    assert condition(pods, "assigned")["reason"] == "Assigned"


def test_an_unmanaged_pod_has_none(known: Callable[..., None], pods: Pods) -> None:
    known(*machines(1, 2, prefix="one"))
    pods.create({"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
    pods.create(pod("managed"))
    pods.wait_until_bound("plain", "managed")
    wait_for_placed(pods, "managed")
    assert condition(pods, "plain") == {}
