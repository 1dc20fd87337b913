"""Pods that are bound while nobody answers: found afterwards, given the hints they lack, and nobody gets their places.

The machines' kubelets are simulated, with the kubelet's own code. Their exporters are so slow that no
NodeResourceTopology shows anything of what happens here.
"""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import Pods, pod, wait_until_known
from tests.cluster.kubelets import Kubelets, SimulatedMachine, kubelets
from tests.cluster.webhook_process import QUICK_LEASE, local_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

NEVER = 100_000.0


@pytest.fixture
def machines(control_plane: ControlPlane, namespace: str) -> Iterator[Kubelets]:
    # k0 ── NUMA 0 [16]  NUMA 1 [16]      [free cpus]
    # k1 ── NUMA 0 [16]  NUMA 1 [16]
    with kubelets(control_plane, [SimulatedMachine("k0"), SimulatedMachine("k1")], lag=NEVER) as running:
        yield running
        control_plane.delete_namespace(namespace)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_pods_bound_while_the_service_is_down_have_hints_afterwards_and_later_ones_do_not_get_their_places(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets, end: str
) -> None:
    with local_webhook(control_plane, values={"settings": QUICK_LEASE}) as webhook:
        wait_until_known(pods, 2)
        pods.create(pod("guarded", cpu=9))
        pods.wait_until_bound("guarded")
        (replica,) = webhook.replicas
        replica.process.stop() if end == "stopped" else replica.process.kill()
        for number in range(3):
            _next_second(control_plane, pods)
            pods.create(pod(f"unguarded-{number}", cpu=9))
            pods.wait_until_bound(f"unguarded-{number}")
        control_plane.wait_for("all to be admitted", lambda: len(_given(machines)) == 4)
        assert not any(_has_hint(pods, f"unguarded-{number}") for number in range(3))
        replica.start(replica.backend)
        replica.wait_until_ready()
        assert webhook.wait_until_called()
        # Of each NUMA node 7 cpus are left.
        for name, cpu in (("large", 9), *((f"small-{number}", 7) for number in range(4))):
            pods.create(pod(name, cpu=cpu))
        for number in range(3):
            control_plane.wait_for("a hint", partial(_has_hint, pods, f"unguarded-{number}"))
        pods.wait_until_bound(*(f"small-{number}" for number in range(4)))
        control_plane.wait_for("all to be admitted", lambda: len(_given(machines)) == 8)
        assert replica.late_hints() == 3
    assert pods.gated() == {"large"}
    assert machines.events("rejected") == []
    assert overcommitted(control_plane, pods.all().values()) == {}
    # NUMA for NUMA what the kubelets did.
    assert {name: pods.hint(name) for name in _given(machines)} == _given(machines)


def _given(machines: Kubelets) -> dict[str, tuple[str, list[int]]]:
    """Pod -> the node and NUMA nodes on which a kubelet gave it cpus."""
    return {
        event["pod"].partition("/")[2]: (event["node"], [int(numa) for numa in event["containers"][0]["cpusPerNuma"]])
        for event in machines.events("admitted")
    }


def _has_hint(pods: Pods, name: str) -> bool:
    return {"topology-webhook.dev/numa", "scheduling.koordinator.sh/resource-status"} <= _annotations(pods, name).keys()


def _annotations(pods: Pods, name: str) -> dict[str, Any]:
    annotations: dict[str, Any] = pods.get(name)["metadata"]["annotations"]
    return annotations


def _next_second(plane: ControlPlane, pods: Pods) -> None:
    """Return when the stamp of the next binding is later than all there are."""
    stamps = [
        datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
        for raw in pods.all().values()
        for condition in raw["status"].get("conditions", ())
        if condition["type"] == "PodScheduled"
    ]
    plane.wait_for("the next second", lambda: time.time() > max(stamps) + 1)
