"""Pods that come while no replica leads or none answers: they wait for the next leader, or keep their NUMA nodes.

The machines' kubelets are simulated, with the kubelet's own code. Their exporters are so slow that no
NodeResourceTopology shows anything of what happens here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.audit import overcommitted
from tests.cluster.gated import PLACEMENT, Pods, pod, wait_until_known
from tests.cluster.kubelets import Kubelets, even_machine, kubelets
from tests.cluster.webhook_process import QUICK_LEASE, local_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

NEVER = 100_000.0
# A pod that waits behind a gate for the next leader would be given its place by that one.
UNGATED = {**QUICK_LEASE, "gate": "Never"}


@pytest.fixture
def machines(control_plane: ControlPlane, namespace: str) -> Iterator[Kubelets]:
    # k0 ── NUMA 0 [16]  NUMA 1 [16]      [free cpus]
    # k1 ── NUMA 0 [16]  NUMA 1 [16]
    with kubelets(control_plane, [even_machine("k0"), even_machine("k1")], lag=NEVER) as running:
        yield running
        control_plane.delete_namespace(namespace)


def test_pods_that_come_between_two_leaders_are_bound_by_the_next_one_with_their_allocations(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets
) -> None:
    with local_webhook(control_plane, replicas=2, values={"settings": UNGATED}) as webhook:
        wait_until_known(pods, 2)
        pods.create(pod("guarded", cpu=9))
        pods.wait_until_bound("guarded")
        (leader,) = webhook.leaders
        (other,) = set(webhook.replicas) - {leader}
        leader.process.kill()
        names = [f"between-{number}" for number in range(3)]
        for name in names[:2]:
            pods.create(pod(name, cpu=9))
            control_plane.wait_for("its start", partial(_runs, pods, name))
        nodes = list(pods.bound().values())
        (free,) = (node for node in ("k0", "k1") if nodes.count(node) == 1)
        control_plane.wait_for("the other replica to know both", partial(_would_go_to, pods, free))
        pods.create(pod(names[2], cpu=9))
        pods.wait_until_bound(*names)
        control_plane.wait_for("all to be admitted", lambda: len(_given(machines)) == 4)
        for name in names:
            control_plane.wait_for("an allocation", partial(_has_allocation, pods, name))
        assert other.allocation_backfills() == 0
        # NUMA for NUMA what the kubelets did.
        assert {name: pods.allocation(name) for name in _given(machines)} == _given(machines)
        # Of each NUMA node 7 cpus are left.
        for number in range(4):
            pods.create(pod(f"small-{number}", cpu=7))
        pods.wait_until_bound(*(f"small-{number}" for number in range(4)))
        control_plane.wait_for("all to be admitted", lambda: len(_given(machines)) == 8)
    assert machines.events("rejected") == []
    assert overcommitted(control_plane, pods.all().values()) == {}


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_pods_bound_while_the_whole_service_is_down_are_given_no_allocation_and_nobody_gets_their_places(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets, end: str
) -> None:
    with local_webhook(control_plane, values={"settings": QUICK_LEASE}) as webhook:
        wait_until_known(pods, 2)
        (replica,) = webhook.replicas
        replica.process.stop() if end == "stopped" else replica.process.kill()
        names = [f"unguarded-{number}" for number in range(4)]
        for name in names:
            pods.create(pod(name, cpu=9))
        pods.wait_until_bound(*names)
        control_plane.wait_for("all to be admitted", lambda: len(_given(machines)) == 4)
        replica.start(replica.backend)
        replica.wait_until_ready()
        assert webhook.wait_until_called()
        pods.create(pod("large", cpu=9))
        for name in names:
            pods.wait_until_told(name, "NUMANodesUnknown", "which pods ended meanwhile")
        assert replica.allocation_backfills() == 0
        assert not any(_has_allocation(pods, name) for name in names)
    assert pods.gated() == {"large"}
    assert machines.events("rejected") == []


def _runs(pods: Pods, name: str) -> bool:
    return bool(pods.get(name)["status"]["phase"] == "Running")


def _would_go_to(pods: Pods, node: str) -> bool:
    """Whether such a pod fits on this node alone; False while the API server still calls the replica that ended."""
    tried = pods.plane.api.create(f"{pods.path}?dryRun=All", pod("any", cpu=9))
    text = tried["metadata"]["annotations"].get(PLACEMENT, "")
    return "1 of 2 nodes fits" in text and f"best {node} " in text


def _given(machines: Kubelets) -> dict[str, tuple[str, list[int]]]:
    """Pod -> the node and the NUMA nodes on which a kubelet gave it CPUs."""
    return {
        event["pod"].partition("/")[2]: (event["node"], [int(numa) for numa in event["containers"][0]["cpusPerNuma"]])
        for event in machines.events("admitted")
    }


def _has_allocation(pods: Pods, name: str) -> bool:
    return {"topology-webhook.dev/numa", "scheduling.koordinator.sh/resource-status"} <= _annotations(pods, name).keys()


def _annotations(pods: Pods, name: str) -> dict[str, Any]:
    annotations: dict[str, Any] = pods.get(name)["metadata"]["annotations"]
    return annotations
