"""Nodes with an unreadable NUMA policy. It does not count as none: pods that the kubelet might reject avoid them."""

from dataclasses import replace

import pytest

from tests.builders.pods import container
from tests.builders.records import BIG, SINGLE, cpus, node, pod, state, topology
from tests.unit.engine.decisions import decision, reasons
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import NodeTopology, PluginConfig
from webhook.model.options import Options
from webhook.model.policy import NUMAPolicy, Scope

TEXT = "topologyManagerPolicy 'strict'"
GUARANTEED = {"cpu": "2", "memory": "1Gi"}
AS_PLUGIN = Options(fidelity="Plugin")


def unknown(name: str, *free: int) -> NodeTopology:
    """An NRT with an unknown policy. free: CPUs of each NUMA node."""
    return replace(topology(node=name, free=cpus(*free), policy=NUMAPolicy.NONE), unknown_policy=TEXT)


def labelled(name: str, text: str) -> Node:
    """A node with Koordinator's label."""
    label = {"node.koordinator.sh/numa-topology-policy": text}
    read = Node.from_object({"metadata": {"name": name, "labels": label}})
    return replace(read, allocatable=BIG)


# odd  [8 8] with a policy nobody knows     none [8 8] without one
BOTH = state(
    node(name="odd"),
    unknown("odd", 8, 8),
    node(name="none"),
    topology(node="none", free=cpus(8, 8), policy=NUMAPolicy.NONE),
)


@pytest.mark.parametrize("asked", ["SingleNUMANode", "Restricted", "BestEffort"])
@pytest.mark.parametrize("fidelity", ["Kubelet", "Plugin"])
def test_a_pod_with_a_policy_stays_away_in_either_fidelity(asked: str, fidelity: str) -> None:
    decided = decision(BOTH, pod(GUARANTEED, policy=asked), options=Options(fidelity=fidelity))  # type: ignore[arg-type]
    assert reasons(decided) == {"odd": "UnknownPolicy", "none": "Fits"}
    assert decided.explain(decided.snapshot.node_arrays.index["odd"])[1] == f"unknown NUMA policy: {TEXT}"


def test_a_pod_without_a_policy_stays_away_if_a_kubelet_would_align_it() -> None:
    assert reasons(decision(BOTH, pod(GUARANTEED)))["odd"] == "UnknownPolicy"
    burstable = pod(spec={"containers": [container(requests={"cpu": "2"})]})
    assert reasons(decision(BOTH, burstable)) == {"odd": "Fits", "none": "Fits"}
    with_gpu = state(node(name="odd", allocatable={**BIG, "example.com/gpu": 1}), unknown("odd", 8))
    asks = pod(spec={"containers": [container(limits={"example.com/gpu": "1"})]})
    assert reasons(decision(with_gpu, asks)) == {"odd": "UnknownPolicy"}


def test_the_upstream_plugin_takes_it_for_none() -> None:
    assert reasons(decision(BOTH, pod({"cpu": "9", "memory": "1Gi"}), options=AS_PLUGIN))["odd"] == "Fits"


def test_a_name_that_only_we_read_is_none_for_the_plugin() -> None:
    loose = replace(topology(node="a", free=cpus(8, 8), policy=SINGLE), plugin=PluginConfig())
    cluster = state(node(name="a"), loose)
    nine = pod({"cpu": "9", "memory": "1Gi"})
    assert reasons(decision(cluster, nine)) == {"a": "NoSingleNUMANode"}
    assert reasons(decision(cluster, nine, options=AS_PLUGIN)) == {"a": "Fits"}


def test_koordinators_label_decides_where_it_can_be_read_and_where_it_cannot() -> None:
    single = topology(node="a", free=cpus(8, 8), policy=SINGLE, scope=Scope.POD)
    asked = pod(GUARANTEED, policy="SingleNUMANode")
    assert reasons(decision(state(labelled("a", "single-numa-node"), unknown("a", 8)), asked)) == {"a": "Fits"}
    assert reasons(decision(state(labelled("a", "Restricted"), single), asked)) == {"a": "PolicyMismatch"}
    decided = decision(state(labelled("a", "strict"), single), asked)
    sentence = "unknown NUMA policy: label node.koordinator.sh/numa-topology-policy 'strict'"
    assert (reasons(decided), decided.explain(0)[1]) == ({"a": "UnknownPolicy"}, sentence)


def test_a_node_without_numa_nodes_is_unknown_for_that() -> None:
    cluster = state(labelled("a", "strict"))
    assert reasons(decision(cluster, pod(GUARANTEED, policy="SingleNUMANode"))) == {"a": "NoTopology"}
    assert reasons(decision(cluster, pod(GUARANTEED))) == {"a": "Fits"}


def test_a_policy_that_comes_to_be_read_counts_from_then_on_and_snapshots_stay_as_they_are() -> None:
    cluster = ClusterState()
    for name in ("a", "b"):
        cluster.upsert_node(node(name=name))
        cluster.upsert_topology(unknown(name, 8))
    before = cluster.node_arrays()
    assert dict(before.unknown_policies) == {"a": TEXT, "b": TEXT}
    cluster.upsert_topology(topology(node="a", free=cpus(8)))
    cluster.delete_node("b")
    assert reasons(decision(cluster, pod(GUARANTEED, policy="SingleNUMANode"))) == {"a": "Fits"}
    assert not cluster.node_arrays().unknown_policies
    assert dict(before.unknown_policies) == {"a": TEXT, "b": TEXT}
