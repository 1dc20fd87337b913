"""The whole decision: order of reasons, rank, explanations with numbers, both fidelities."""

from dataclasses import replace

import pytest

from tests.builders.records import GI, SINGLE, cpus, node, pod, state, topology
from tests.unit.engine.decisions import decision, reasons
from webhook.engine.decide import ScoreStrategy
from webhook.engine.reason import REASONS, Reason
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.formats.kubernetes.avoided_node import AvoidedNode
from webhook.formats.kubernetes.node import Taint
from webhook.model.names import KUBELET_OPTIONS
from webhook.model.options import Options
from webhook.model.policy import NUMAPolicy, Scope

FIVE = {"cpu": "5", "memory": "1Gi"}


def zones(*free: int) -> list[dict[str, int]]:
    """NUMA nodes with these free CPUs, and 4Gi each."""
    return [{**amounts, "memory": 4 * GI} for amounts in cpus(*free)]


WHOLE = {"cpu": 8000, "memory": 4 * GI}


def fleet(*free: tuple[int, ...]) -> ClusterState:
    """Nodes n0, n1, .. with policy single-numa-node. free: of 8 CPUs, for each NUMA node."""
    names = [f"n{number}" for number in range(len(free))]
    nodes = [node(name=name) for name in names]
    return state(
        *nodes,
        *(topology(node=name, free=zones(*each), capacity=WHOLE) for name, each in zip(names, free, strict=True)),
    )


def test_an_empty_cluster_is_an_answer_too() -> None:
    decided = decision(ClusterState(), pod(FIVE, policy="SingleNUMANode"))
    assert (decided.fit_count, decided.best(3), decided.excluded) == (0, (), {})


def test_every_excluded_node_has_one_reason_and_they_are_counted() -> None:
    cluster = fleet((8, 8), (4, 4), (4, 4), (2, 8))
    cluster.upsert_node(node(name="cordoned", cordoned=True))
    decided = decision(cluster, pod(FIVE))
    assert decided.fit_count == 2
    assert decided.excluded == {Reason.UNSCHEDULABLE: 1, Reason.NO_SINGLE_NUMA_NODE: 2}
    assert sum(decided.excluded.values()) + decided.fit_count == len(decided.fits)


def test_the_codes_of_reasons_are_camel_case_and_every_phrase_is_told_apart() -> None:
    assert [reason.code for reason in REASONS][:3] == ["Fits", "NotReady", "Unschedulable"]
    assert all(reason.code.replace("NUMA", "Numa").lower() == reason.name.replace("_", "").lower() for reason in Reason)
    assert len({reason.phrase for reason in Reason}) == len(REASONS)


def test_the_best_come_first_and_equals_by_name() -> None:
    # fuller is better: n1 and n3 have one NUMA node with exactly what is asked for
    decided = decision(fleet((8,), (5,), (8,), (5,), (4,)), pod(FIVE, policy="SingleNUMANode"))
    assert [candidate.node for candidate in decided.best(9)] == ["n1", "n3", "n0", "n2"]
    assert [candidate.node for candidate in decided.best(3)] == ["n1", "n3", "n0"]
    assert [candidate.node for candidate in decided.best(1)] == ["n1"]
    assert decided.best(0) == ()


def test_rank_does_not_depend_on_the_order_of_arrival() -> None:
    names = [f"n{number}" for number in range(20)]
    ranks = set()
    for order in (names, names[::-1], sorted(names, key=hash)):
        cluster = state(
            *(node(name=name) for name in order),
            *(topology(node=name, free=zones(8), capacity=WHOLE) for name in order),
        )
        ranks.add(tuple(candidate.node for candidate in decision(cluster, pod(FIVE)).best(7)))
    assert ranks == {tuple(sorted(names)[:7])}


def test_the_numa_nodes_are_named_by_id() -> None:
    cluster = state(node(name="a"), topology(node="a", free=zones(2, 8), capacity=WHOLE, ids=[4, 9]))
    decided = decision(cluster, pod(FIVE))
    assert decided.best(1)[0].numa_nodes == (9,)
    assert decided.numa_nodes(0) == (9,)
    assert decided.allocation(0) == ((9, {"cpu": 5000, "memory": GI}),)


EXPLAINED = [
    (node(name="a", ready=False), {}, "not ready"),
    (node(name="a", cordoned=True), {}, "cordoned"),
    (node(name="a", labels={"disk": "hdd"}), {"nodeSelector": {"disk": "ssd"}}, "node selector mismatch: disk=ssd"),
    (node(name="a", taints=[Taint("gpu", "yes", "NoSchedule")]), {}, "untolerated taint gpu=yes:NoSchedule"),
    (
        node(name="a", allocatable={"cpu": 8000, "memory": 8 * GI, "pods": 0}),
        {},
        "too many pods: 0 places are taken, and there are no more",
    ),
    (
        node(name="a", allocatable={"cpu": 4000, "memory": 8 * GI, "pods": 9}),
        {},
        "insufficient cpu: 5 requested, 4 free",
    ),
]


@pytest.mark.parametrize(("unfit", "spec", "sentence"), EXPLAINED)
def test_an_excluded_node_is_explained_with_numbers(unfit, spec, sentence) -> None:  # type: ignore[no-untyped-def]
    assert decision(state(unfit), pod(FIVE, spec=spec)).explain(0)[1] == sentence


def test_an_alignment_that_fails_is_explained_by_numa_node() -> None:
    decided = decision(fleet((4, 2)), pod(FIVE))
    assert decided.explain(0) == (
        Reason.NO_SINGLE_NUMA_NODE,
        "no single NUMA node with 5 cpu, 1Gi memory (NUMA 0: 4 cpu, 4Gi memory free; NUMA 1: 2 cpu, 4Gi memory free)",
    )


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        (Scope.POD, "8 cpu, 2Gi memory for all containers together (scope pod)"),
        (Scope.CONTAINER, "4 cpu, 1Gi memory and 4 cpu, 1Gi memory for one container each (scope container)"),
    ],
)
def test_the_requests_of_several_containers_are_told_as_the_nodes_scope_counts_them(scope: Scope, wanted: str) -> None:
    cluster = state(node(name="a"), topology(node="a", free=zones(6, 3), capacity=WHOLE, scope=scope))
    four = {"cpu": "4", "memory": "1Gi"}
    assert decision(cluster, pod(four, four)).explain(0)[1] == (
        f"no single NUMA node with {wanted} (NUMA 0: 6 cpu, 4Gi memory free; NUMA 1: 3 cpu, 4Gi memory free)"
    )


def test_a_policy_mismatch_names_both_sides() -> None:
    decided = decision(fleet((8,)), pod(FIVE, policy="Restricted"))
    expected = "NUMA policy mismatch: the pod asks for Restricted, the node's policy is single-numa-node"
    assert decided.explain(0) == (Reason.POLICY_MISMATCH, expected)


def test_more_numa_nodes_than_the_kubelet_takes() -> None:
    cluster = state(node(name="a"), topology(node="a", free=zones(8, 8, 8), capacity=WHOLE, max_numa_nodes=2))
    reason, sentence = decision(cluster, pod(FIVE)).explain(0)
    assert reason is Reason.TOO_MANY_NUMA_NODES
    assert sentence == (
        "3 NUMA nodes: with policy single-numa-node its kubelet does not start on more than 2 "
        f"(max-allowable-numa-nodes); if that is raised, its annotation {KUBELET_OPTIONS} must say so"
    )


def test_every_reason_has_an_explanation() -> None:
    decided = decision(fleet((4, 2)), pod(FIVE))
    avoids = replace(decided.pod, avoided=(AvoidedNode("n0", "TopologyAffinityError", 0, 120),))
    decided = replace(decided, pod=avoids)
    for reason in set(Reason) - {Reason.UNKNOWN_POLICY}:  # its sentence is the node's own (see test_unknown_policy)
        decided.reason[0] = reason
        found, sentence = decided.explain(0)
        assert found is reason
        assert sentence


@pytest.mark.parametrize(
    "strategy", ["Packing", "LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"]
)
@pytest.mark.parametrize("fidelity", ["Kubelet", "Plugin"])
def test_either_fidelity_ranks_by_any_score(fidelity: str, strategy: ScoreStrategy) -> None:
    options = Options(fidelity="Plugin" if fidelity == "Plugin" else "Kubelet", score_strategy=strategy)
    decided = decision(fleet((8, 2), (2, 8), (4, 4)), pod(FIVE), options=options)
    assert reasons(decided) == {"n0": "Fits", "n1": "Fits", "n2": "NoSingleNUMANode"}
    assert {candidate.numa_nodes for candidate in decided.best(2)} == {(0,), (1,)}
    assert all(0 <= candidate.score <= 100 for candidate in decided.best(2))


# n0 [8 8]  n1 [4 4]      [free cpus per NUMA node, memory not published]
def test_what_no_numa_node_lists_does_not_spoil_the_number_of_numa_nodes_but_as_shipped() -> None:
    whole, policy = {"cpu": 8000}, NUMAPolicy.BEST_EFFORT
    cluster = state(
        node(name="n0"),
        node(name="n1"),
        topology(node="n0", free=cpus(8, 8), capacity=whole, policy=policy),
        topology(node="n1", free=cpus(4, 4), capacity=whole, policy=policy),
    )
    unit = 100 // 8
    ours = decision(cluster, pod(FIVE), options=Options(score_strategy="LeastNUMANodes")).best(2)
    assert [each.score for each in ours] == [100 - unit + unit // 2, 100 - 2 * unit + unit // 2]
    shipped = decision(cluster, pod(FIVE), options=Options(fidelity="Plugin", score_strategy="LeastNUMANodes")).best(2)
    assert [each.score for each in shipped] == [0, 0]


def test_the_fidelities_differ_where_upstream_looks_no_further() -> None:
    # Restricted: the kubelet refuses what is spread although one NUMA node could hold it; the plugin lets it pass.
    cluster = state(
        node(name="a"),
        topology(node="a", free=zones(4, 4), capacity=WHOLE, policy=NUMAPolicy.RESTRICTED, scope=Scope.POD),
    )
    assert reasons(decision(cluster, pod(FIVE))) == {"a": "NotAligned"}
    assert reasons(decision(cluster, pod(FIVE), options=Options(fidelity="Plugin"))) == {"a": "Fits"}


def test_numa_nodes_that_list_no_resource_are_no_known_topology() -> None:
    cluster = state(
        node(name="a"),
        topology(node="a", free=[{}, {}], capacity={}),
        node(name="b"),
        topology(node="b", free=zones(8, 8), capacity=WHOLE),
    )
    assert reasons(decision(cluster, pod(FIVE, policy="SingleNUMANode"))) == {"a": "NoTopology", "b": "Fits"}
    assert reasons(decision(cluster, pod(FIVE))) == {"a": "Fits", "b": "Fits"}


def test_a_node_label_beats_the_nrt_in_the_decision_as_well() -> None:
    cluster = state(
        node(name="a", policy_label=SINGLE),
        topology(node="a", free=zones(4, 4), capacity=WHOLE, policy=NUMAPolicy.NONE),
    )
    assert reasons(decision(cluster, pod(FIVE))) == {"a": "NoSingleNUMANode"}
