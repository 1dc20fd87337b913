"""A pool without nodes: its pods reach the scheduler, so that a cluster autoscaler sees them, and run where they align.

No autoscaler runs here. What it looks for is in the pods: no gate, and the scheduler's word that no node will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import PLACEMENT, SINGLE, SPEC, Pods, is_gated, pod
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, Machine
from tests.cluster.webhook_process import LocalWebhook, local_webhook
from tests.integration.workloads import job, jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

POOL = {"pool": "gpu"}
# The pool that is there: every policy in it contradicts SingleNUMANode.
SYSTEM = Machine("system", free=(16, 16), policy="best-effort")
# Its nodes that come: 8 cpus fit on NUMA node 1 of one of them, though others have as many in sum.
COMING = (
    Machine("gpu-0", free=(6, 6), labels=POOL),
    Machine("gpu-1", free=(2, 9), labels=POOL),
    Machine("gpu-2", free=(7, 7), labels=POOL),
)


@pytest.fixture(scope="module", autouse=True, params=["Always", "WhenNeeded"])
def webhook(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane, values={"settings": {"gate": request.param}}) as webhook:
        yield webhook


def is_seen_by_an_autoscaler(raw: dict[str, Any]) -> bool:
    """The condition of cluster-autoscaler and Karpenter: the scheduler has tried the pod and found no node."""
    conditions = raw["status"].get("conditions") or ()
    tried = {(one["type"], one["status"], one.get("reason")) for one in conditions}
    return ("PodScheduled", "False", "Unschedulable") in tried and not raw["spec"].get("schedulingGates")


def test_a_pod_is_seen_at_once_and_bound_where_it_aligns_when_nodes_are_added(
    known: Callable[..., None], create_machines: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(SYSTEM)
    created = pods.create(pod("a", nodeSelector=POOL))
    assert not is_gated(created)
    text = created["metadata"]["annotations"][PLACEMENT]
    assert text.startswith("waiting for a node: SingleNUMANode: none of 1 node fits now\n")
    control_plane.wait_for("the scheduler to report it", lambda: is_seen_by_an_autoscaler(pods.get("a")))
    create_machines(*COMING)
    pods.wait_until_bound("a")
    assert pods.allocation("a") == ("gpu-1", [1])
    said = pods.get("a")["metadata"]["annotations"][PLACEMENT]
    assert said.splitlines()[:2] == ["bound to gpu-1, NUMA 1", "it was left to the scheduler until a node was added"]


def test_pods_whose_policy_stands_on_their_job_are_ungated_by_the_leader(
    known: Callable[..., None], create_machines: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(SYSTEM)
    control_plane.api.create(jobs(pods), job("solver", 2, SINGLE, cpu=8, nodeSelector=POOL))

    def are_seen() -> bool:
        return [is_seen_by_an_autoscaler(raw) for raw in pods.all().values()] == [True, True]

    control_plane.wait_for("both to be seen", are_seen)
    for name, raw in pods.all().items():
        assert raw["metadata"]["annotations"][SPEC] == SINGLE[SPEC]
        assert raw["metadata"]["annotations"][PLACEMENT].startswith("waiting for a node: ")
        pods.wait_until_told(name, "Ungated", "left to the scheduler until a node is added: its own node selector")
    create_machines(*(Machine(one.name, free=(9, 2), labels=POOL) for one in COMING[:2]))
    pods.wait_until_bound(*pods.all())
    assert sorted(pods.allocation(name) for name in pods.all()) == [("gpu-0", [0]), ("gpu-1", [0])]


def test_a_pod_whose_node_goes_away_while_it_waits_for_room_is_ungated(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(SYSTEM, Machine("gpu-0", free=(2, 2), labels=POOL))
    assert is_gated(pods.create(pod("a", nodeSelector=POOL)))
    control_plane.api.delete("/api/v1/nodes/gpu-0")
    control_plane.wait_for("it to be seen", lambda: is_seen_by_an_autoscaler(pods.get("a")))


def test_a_group_waits_behind_the_gate_and_goes_together(
    known: Callable[..., None], create_machines: Callable[..., None], pods: Pods
) -> None:
    known(SYSTEM)
    group = {"pod-group-name": "g", "topology-webhook.dev/min-member": "2"}
    for name in ("a", "b"):
        assert is_gated(pods.create(pod(name, annotations=group, nodeSelector=POOL)))
    labels = {**POOL, RACK_LABEL: "rack-0", ZONE_LABEL: "zone-0"}
    create_machines(Machine("gpu-0", free=(9, 9), labels=labels))
    pods.wait_until_bound("a", "b")
    assert sorted(pods.allocation(name)[1] for name in ("a", "b")) == [[0], [1]]
