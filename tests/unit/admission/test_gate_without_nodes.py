"""A pod for which no node is there yet is not gated: a cluster autoscaler sees only pods that the scheduler tries."""

from typing import Any

import jsonpatch
import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, pod
from tests.unit.admission.node_affinity import admits
from webhook.admission.pod.mutation import mutate_pod
from webhook.engine.decide import decide
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.gates import has_gate
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.affinity_patch import required_terms
from webhook.model.names import NUMA_TOPOLOGY_SPEC, PLACEMENT, POD_GROUP_NAME
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.schedulability import UnschedulableReason, awaits_node, look_ahead
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import GateMode, NoCapacity, Rules

POOL = {"pool": "gpu"}
# a, b [16 16] single-numa-node, c [16 16] best-effort; the pool gpu is scaled to zero       [free cpus per NUMA node]
CLUSTER = cluster_snapshot(
    *(node(name=name) for name in "abc"),
    *(nrt(node=name, free=[16, 16]) for name in "ab"),
    nrt(node="c", free=[16, 16], policy="best-effort"),
)


@pytest.mark.parametrize("gate", ["Always", "WhenNeeded", "Never"])
@pytest.mark.parametrize("no_capacity", ["gate", "allow"])
def test_a_pod_whose_nodes_are_to_come_is_left_to_the_scheduler(gate: GateMode, no_capacity: NoCapacity) -> None:
    raw, rules = pod(nodeSelector=POOL), Rules(gate=gate, no_capacity=no_capacity)
    mutation = mutate_pod(raw, CLUSTER, rules)
    assert (mutation.verdict, mutation.warnings) == (Verdict.WAIT, (mutation.message,))
    created = jsonpatch.apply_patch(raw, list(mutation.operations))
    assert not has_gate(created)
    placement = created["metadata"]["annotations"][PLACEMENT]
    assert placement.startswith("waiting for a node: SingleNUMANode: none of 3 nodes fits now\nits own node selector")
    labels = {"kubernetes.io/hostname": "new", **POOL}
    assert admits(created, "new", labels)
    # Should c come to match, its policy contradicts all the same.
    assert not admits(created, "c", {**labels, "kubernetes.io/hostname": "c"})
    assert mutate_pod(created, CLUSTER, rules).operations == ()


def test_so_is_one_of_a_cluster_without_any_node() -> None:
    created = mutate_pod(pod(), cluster_snapshot(), Rules()).mutated
    assert not has_gate(created)
    assert created["metadata"]["annotations"][PLACEMENT].endswith("none of 0 nodes fits now\nthe cluster has no nodes")


def test_however_many_nodes_contradict_those_to_come_stay_open() -> None:
    names = [f"n{number:03}" for number in range(70)]
    others = cluster_snapshot(
        *(node(name=name) for name in names),
        *(nrt(node=name, free=[16], policy="best-effort") for name in names),
        node(name="s"),
        nrt(node="s", free=[16]),
    )
    raw = pod(nodeSelector=POOL)
    created = mutate_pod(raw, others, Rules()).mutated
    assert admits(created, "new", {"kubernetes.io/hostname": "new", **POOL})
    assert required_terms(created) is None


def test_a_bare_pods_own_node_affinity_stays_as_it_is_written() -> None:
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    raw = pod(affinity=affinity)
    created = mutate_pod(raw, CLUSTER, Rules()).mutated
    assert created["spec"] == raw["spec"]
    owned = pod(
        affinity=affinity,
        metadata={
            "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
            "annotations": {NUMA_TOPOLOGY_SPEC: SINGLE},
        },
    )
    assert required_terms(mutate_pod(owned, CLUSTER, Rules()).mutated) != terms


def test_members_of_a_group_wait_together_behind_the_gate() -> None:
    raw = pod(nodeSelector=POOL, metadata={"annotations": {NUMA_TOPOLOGY_SPEC: SINGLE, POD_GROUP_NAME: "g"}})
    assert has_gate(mutate_pod(raw, CLUSTER, Rules()).mutated)


def test_where_the_operator_wants_no_pod_to_wait_it_is_denied() -> None:
    mutation = mutate_pod(pod(nodeSelector=POOL), CLUSTER, Rules(no_capacity="Deny"))
    assert (mutation.verdict, mutation.reason) == (Verdict.DENY, "NoNode")


NO_TOPOLOGY = cluster_snapshot(node(name="a"))


@pytest.mark.parametrize(
    ("raw", "cluster"),
    [
        (pod(nodeSelector=POOL), CLUSTER),
        (pod(cpu="33"), CLUSTER),
        (pod(), cluster_snapshot()),
        (pod(cpu="33"), NO_TOPOLOGY),
        (pod(), NO_TOPOLOGY),
        (pod(cpu="17"), CLUSTER),
        (pod(numa='{"numaTopologyPolicy": "Restricted"}'), CLUSTER),
        (pod(), cluster_snapshot(node(name="a", unschedulable=True), nrt(node="a", free=[0]))),
    ],
)
def test_the_short_way_to_know_agrees_with_the_schedulability(raw: dict[str, Any], cluster: ClusterSnapshot) -> None:
    read = Pod.from_object(raw)
    intent, _ = parse_numa_intent(read.annotations)
    node_arrays, options = cluster.nodes.node_arrays, Rules().engine
    no_node = look_ahead(node_arrays, read, intent, options).reason_code is UnschedulableReason.NO_NODE
    assert awaits_node(decide(cluster.nodes, read, intent, options)) is no_node
