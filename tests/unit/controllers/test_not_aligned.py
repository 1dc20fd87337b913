"""What the leader says of a pod that kubelets do not align, and what becomes of one whose policy is its owners'."""

import asyncio
from functools import partial
from time import monotonic, time
from typing import Any

from tests.builders.clusters import assuming, cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.unit.controllers.placement.peers import APART, burstable, nobody
from webhook.engine.decide import Decision
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.single_node import NodeAlone, node_for
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gated_gang import GangAssigner
from webhook.placing.gang.kept_domain import KeptDomains
from webhook.placing.pod.assignment import Assignment, NoAssignment, find_assignment, why_unassigned
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.rules import Rules

DENY = Rules(not_alignable="Deny")
FIELD = "spec.containers[0].resources.limits.memory to 1Gi"
NO_LIMIT = f'container "main" has no limits.memory; set {FIELD}'
# a [16]   single-numa-node, by its kubelet       [free cpus per NUMA node]
CLUSTER = cluster_snapshot(node(name="a"), nrt(node="a", free=[16]))


def found(pod: GatedPod, rules: Rules) -> Assignment | Decision | NoAssignment:
    return find_assignment(CLUSTER.nodes, pod, rules, nobody)


def test_the_place_says_what_its_kubelet_does_not_align() -> None:
    for pod in (burstable(), burstable(inherits=True)):
        assignment = found(pod, Rules())
        assert isinstance(assignment, Assignment)
        assert assignment.not_aligned
        assert f"fits; its kubelet does not align this pod: {NO_LIMIT}; best a" in assignment.text


def test_of_a_pod_whose_node_the_scheduler_chooses_it_is_said_of_all_nodes() -> None:
    assignment = found(burstable(**APART), Rules())
    assert isinstance(assignment, Assignment)
    assert f"; no kubelet aligns this pod: {NO_LIMIT}; " in assignment.text


def test_a_pod_that_waits_for_room_says_it_too() -> None:
    pod = burstable(cpu="16")
    full = cluster_snapshot(node(name="a"), nrt(node="a", free=[16]), node(name="b", cpus=8))
    closed = full.nodes.closed(full.nodes.node_arrays.has_topology)
    decision = find_assignment(closed, pod, Rules(), nobody)
    assert isinstance(decision, Decision)
    assert f"; no kubelet aligns this pod: {NO_LIMIT}; excluded" in why_unassigned(decision, pod, Rules(), 0).text


def test_with_deny_a_pod_waits_whose_policy_its_creation_could_not_know() -> None:
    refused = found(burstable(inherits=True), DENY)
    assert isinstance(refused, NoAssignment)
    assert refused.text == f"waiting: SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}"


def test_with_deny_a_pod_that_was_admitted_before_is_placed() -> None:
    assert isinstance(found(burstable(), DENY), Assignment)


class Cluster:
    """The node a, with nothing promised."""

    def snapshot(self) -> Any:
        return CLUSTER

    def node_for(self, name: str, pod: str) -> tuple[NodeAlone, NodeSums] | None:
        return node_for(CLUSTER.nodes.node_arrays, Ledger(), name, pod)

    def assume(self, assumed_pod: AssumedPod) -> None:
        del assumed_pod


async def placed_together(rules: Rules, *, inherits: bool) -> Any:
    cluster: Any = Cluster()
    members = (burstable(name, inherits=inherits, group="g", cpu="1") for name in ("g-0", "g-1"))
    (gang,) = units_of(members)
    assert isinstance(gang, GatedGang)
    placer = GangAssigner(
        cluster,
        assuming(cluster),
        rules,
        KeptDomains(cluster, 0, float, monotonic, time),
    )
    return await placer.assign(gang, 2, {}, (), partial(asyncio.sleep, 0))


async def test_members_of_a_group_say_it_and_wait_alike() -> None:
    for _, assignment, _ in await placed_together(Rules(), inherits=False):
        assert assignment.text.endswith(f"; its kubelet does not align this pod: {NO_LIMIT}")
    refused = await placed_together(DENY, inherits=True)
    assert refused.text == f"waiting: SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}"
