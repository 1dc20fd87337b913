"""Nodes that do not enforce the NUMA policy that a pod asks for: they come last, are forbidden, or count as others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.gangs import TOPOLOGY
from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.pods import SINGLE as ASKS_SINGLE
from tests.builders.pods import pod
from webhook.engine.decide import Decision, decide
from webhook.engine.enforcement import not_enforced
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Gang, Member, PodSet
from webhook.engine.reason import Reason
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.nrt import NodeTopology
from webhook.model.names import MANAGED_BY_KOORDINATOR, MANAGED_BY_LABEL
from webhook.model.options import Unenforced

KOORDLET = {"labels": {MANAGED_BY_LABEL: MANAGED_BY_KOORDINATOR}}

# s1, s2 (single-numa-node)   [16 16]    [free cpus]
# weak   (none)               [ 9 16]    fuller, so that packing alone would take it first
CLUSTER = [
    *(each for name in ("s1", "s2") for each in (node(name=name), nrt(node=name, free=(16, 16)))),
    *(node(name="weak"), nrt(node="weak", free=(9, 16), policy="none")),
]


def snapshot(*objects: Mapping[str, Any], rule: Unenforced = Unenforced.LAST) -> Snapshot:
    state = ClusterState(unenforced=rule)
    for raw in objects:
        if raw["kind"] == "Node":
            state.upsert_node(Node.from_object(raw))
        else:
            state.upsert_topology(NodeTopology.from_object(raw))
    return Snapshot(state.node_arrays())


def decided(cluster: Snapshot, **how: Any) -> Decision:
    asking = Pod.from_object(pod(**how))
    return decide(cluster, asking, parse_numa_intent(asking.annotations)[0])


def names(decision: Decision) -> list[str]:
    return [one.node for one in decision.best(9)]


@pytest.mark.parametrize(
    ("rule", "order"),
    [
        (Unenforced.ALLOW, ["weak", "s1", "s2"]),
        (Unenforced.LAST, ["s1", "s2", "weak"]),
        (Unenforced.DENY, ["s1", "s2"]),
    ],
)
def test_nodes_that_enforce_nothing_come_last_or_not_at_all(rule: Unenforced, order: list[str]) -> None:
    assert names(decided(snapshot(*CLUSTER, rule=rule), cpu=7)) == order


def test_a_pod_without_a_policy_goes_anywhere() -> None:
    cluster = snapshot(*CLUSTER, rule=Unenforced.DENY)
    assert len(names(decided(cluster, cpu=7, numa=None))) == 3


def test_a_pod_is_limited_to_nodes_that_enforce_its_policy_while_one_of_them_fits() -> None:
    decision = decided(snapshot(*CLUSTER), cpu=7)
    assert [bool(each) for each in decision.taking] == [True, True, False]
    full = [node(name="s1"), nrt(node="s1", free=(4, 4)), *CLUSTER[4:]]
    decision = decided(snapshot(*full), cpu=7)
    assert [bool(each) for each in decision.taking] == [False, True]
    assert [one.enforces for one in decision.best(1)] == [False]


def test_a_forbidden_node_has_a_reason_of_its_own() -> None:
    decision = decided(snapshot(*CLUSTER, rule=Unenforced.DENY), cpu=7)
    at = decision.snapshot.node_arrays.index["weak"]
    assert decision.explain(at) == (Reason.NOT_ENFORCED, "SingleNUMANode is not enforced there: policy none")


# Two managers are off: nothing of a pod without devices is aligned, whatever the Topology Manager's policy.
def test_a_policy_without_managers_enforces_nothing() -> None:
    off = [resource(name="cpu", capacity=16, allocatable=0)]
    zones = [zone(numa_id=numa_id, resources=off) for numa_id in (0, 1)]
    cluster = snapshot(*CLUSTER[:2], node(name="off"), nrt(node="off", zones=zones))
    assert names(decided(cluster, cpu=7)) == ["s1", "off"]
    decision = decided(cluster, cpu=7)
    text = not_enforced(cluster.node_arrays, decision.request, cluster.node_arrays.index["off"])
    assert text == "not enforced there: no manager of its kubelet aligns cpu, memory"


def test_koordlet_enforces_cpus_and_says_what_it_does_not() -> None:
    cluster = snapshot(node(name="k"), nrt(node="k", free=(16, 16), policy="none", metadata=KOORDLET), *CLUSTER[4:])
    decision = decided(cluster, cpu=7)
    assert names(decision) == ["k", "weak"]
    text = not_enforced(cluster.node_arrays, decision.request, cluster.node_arrays.index["k"])
    assert text == "koordlet enforces cpu there, not memory"


# Pods of 7 CPUs: s1 and s2 hold two on each NUMA node, eight in all; weak holds one and two.
@pytest.mark.parametrize(
    ("rule", "pods", "used"),
    [
        (Unenforced.LAST, 8, {"s1", "s2"}),
        (Unenforced.LAST, 9, {"s1", "s2", "weak"}),
        (Unenforced.DENY, 8, {"s1", "s2"}),
        (Unenforced.DENY, 9, set()),
    ],
)
def test_a_gang_uses_them_only_if_it_must(rule: Unenforced, pods: int, used: set[str]) -> None:
    cluster = snapshot(*CLUSTER, rule=rule)
    template = Pod.from_object(pod(cpu=7, numa=ASKS_SINGLE))
    members = tuple(Member(f"p-{rank}", rank) for rank in range(pods))
    intent = parse_numa_intent(template.annotations)[0]
    gang = Gang("g", sets=(PodSet("pods", template, intent, members, pods),))
    tree = TopologyTrees().tree(TOPOLOGY, cluster.node_arrays)
    found = assign_gang(cluster, tree, gang)
    assert {each.node for each in found.pods()} == used
    assert found.assigned == bool(used)


def test_the_rule_is_part_of_a_snapshot_and_of_nothing_else() -> None:
    cluster = snapshot(*CLUSTER)
    other = cluster.allowing(Unenforced.DENY)
    assert other.version == cluster.version
    assert replace(other.node_arrays, unenforced=Unenforced.LAST).generation == cluster.node_arrays.generation
