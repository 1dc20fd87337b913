"""Koordinator's rules: compatible policies, exclusive NUMA nodes, packing."""

import pytest

from tests.builders.records import GI, SINGLE, cpus, node, pod, resident, state, tell, topology
from tests.unit.engine.decisions import decision, reasons
from webhook.engine.decide import Candidate
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.formats.nrt import Publisher
from webhook.model.options import Options
from webhook.model.policy import NUMAPolicy

RESTRICTED, BEST_EFFORT, NONE = NUMAPolicy.RESTRICTED, NUMAPolicy.BEST_EFFORT, NUMAPolicy.NONE
FIVE = {"cpu": "5", "memory": "1Gi"}


def machine(
    name: str, *free: int, policy: NUMAPolicy = NONE, publisher: Publisher = Publisher.SUBTRACTS
) -> ClusterState:
    """One node with plenty of memory. free: of 8 CPUs, for each NUMA node."""
    zones = [{**amounts, "memory": 64 * GI} for amounts in cpus(*free)]
    whole = {"cpu": 8000, "memory": 64 * GI}
    return state(node(name=name), topology(node=name, free=zones, capacity=whole, policy=policy, publisher=publisher))


@pytest.mark.parametrize(
    ("asked", "compatible"),
    [
        ("SingleNUMANode", {SINGLE, NONE}),
        ("Restricted", {RESTRICTED, NONE}),
        ("BestEffort", {BEST_EFFORT, NONE}),
        (None, set(NUMAPolicy)),
    ],
)
def test_a_pods_policy_goes_with(asked: str | None, compatible: set[NUMAPolicy]) -> None:
    nodes = [node(name=policy.name) for policy in NUMAPolicy]
    topologies = [
        topology(node=policy.name, free=[{"cpu": 8000, "memory": GI}], policy=policy) for policy in NUMAPolicy
    ]
    decided = decision(state(*nodes, *topologies), pod({"cpu": "1", "memory": "1Mi"}, policy=asked))
    fitting = {NUMAPolicy[name] for name, reason in reasons(decided).items() if reason == "Fits"}
    assert fitting == compatible
    assert set(reasons(decided).values()) <= {"Fits", "PolicyMismatch"}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [("SingleNUMANode", "NoTopology"), ("Restricted", "NoTopology"), ("BestEffort", "Fits"), (None, "Fits")],
)
def test_a_node_whose_numa_nodes_are_unknown_takes_only_pods_that_do_not_insist(asked: str | None, reason: str) -> None:
    decided = decision(state(node(name="a")), pod(FIVE, policy=asked))
    assert reasons(decided) == {"a": reason}


def test_a_single_numa_node_pod_is_aligned_where_the_kubelet_does_not_align() -> None:
    split = machine("a", 4, 4)
    assert reasons(decision(split, pod(FIVE))) == {"a": "Fits"}
    assert reasons(decision(split, pod(FIVE, policy="SingleNUMANode"))) == {"a": "NoSingleNUMANode"}
    assert decision(machine("a", 4, 6), pod(FIVE, policy="SingleNUMANode")).best(1)[0].numa_nodes == (1,)


def test_cpus_and_devices_are_aligned_jointly() -> None:
    # [cpus devices] per NUMA node:  apart [8 0][2 1]   together [2 0][8 1]
    def zones(*amounts: tuple[int, int]) -> list[dict[str, int]]:
        return [{"cpu": 1000 * free, "memory": 64 * GI, "example.com/gpu": gpus} for free, gpus in amounts]

    whole = {"cpu": 8000, "memory": 64 * GI, "example.com/gpu": 1}
    allocatable = {"cpu": 16000, "memory": 128 * GI, "pods": 10, "example.com/gpu": 2}
    cluster = state(
        node(name="apart", allocatable=allocatable),
        topology(node="apart", free=zones((8, 0), (2, 1)), capacity=whole, policy=NONE),
        node(name="together", allocatable=allocatable),
        topology(node="together", free=zones((2, 0), (8, 1)), capacity=whole, policy=NONE),
    )
    decided = decision(cluster, pod({**FIVE, "example.com/gpu": "1"}, policy="SingleNUMANode"))
    assert reasons(decided) == {"apart": "NoSingleNUMANode", "together": "Fits"}


SHARED = resident(name="wide", node="a", requests={}, numa={0: {"cpu": 1}, 1: {"cpu": 1}}, policy=RESTRICTED)
ALONE = resident(name="single", node="a", requests={}, numa={0: {"cpu": 1}}, policy=SINGLE)


def test_a_single_numa_node_pod_keeps_off_numa_nodes_that_wide_pods_share() -> None:
    # a: NUMA 0 and 1 are shared by a wide pod, NUMA 2 is not
    cluster = machine("a", 8, 8, 8)
    cluster.upsert_pod(SHARED)
    assert decision(cluster, pod(FIVE, policy="SingleNUMANode")).best(1)[0].numa_nodes == (2,)


def test_where_the_kubelet_chooses_a_numa_node_that_is_shared_the_node_is_excluded() -> None:
    # The kubelet takes the lowest NUMA node that fits, which is shared: NUMA 2 would be free, but nobody can tell it.
    cluster = machine("a", 8, 8, 8, policy=SINGLE)
    cluster.upsert_pod(SHARED)
    decided = decision(cluster, pod(FIVE, policy="SingleNUMANode"))
    assert reasons(decided) == {"a": "NUMANodeExclusive"}
    assert "NUMA 0 has 1" in decided.explain(0)[1]


def test_koordlet_does_as_told_whatever_the_policy() -> None:
    cluster = machine("a", 8, 8, 8, policy=SINGLE, publisher=Publisher.TOTAL)
    cluster.upsert_pod(SHARED)
    assert decision(cluster, pod(FIVE, policy="SingleNUMANode")).best(1)[0].numa_nodes == (2,)


def test_a_wide_pod_keeps_off_numa_nodes_of_single_numa_node_pods() -> None:
    ten = pod({"cpu": "10", "memory": "100Gi"}, policy="Restricted")
    three, two = machine("a", 8, 8, 8), machine("a", 8, 8)
    assert decision(three, ten).best(1)[0].numa_nodes == (0, 1)
    three.upsert_pod(ALONE)
    two.upsert_pod(ALONE)
    assert decision(three, ten).best(1)[0].numa_nodes == (1, 2)
    assert reasons(decision(two, ten)) == {"a": "NUMANodeExclusive"}


def test_a_narrow_pod_may_share_with_a_single_numa_node_pod() -> None:
    cluster = machine("a", 8)
    cluster.upsert_pod(ALONE)
    assert reasons(decision(cluster, pod(FIVE, policy="Restricted"))) == {"a": "Fits"}


def test_single_numa_node_pods_share_with_each_other() -> None:
    cluster = machine("a", 8)
    cluster.upsert_pod(ALONE)
    assert reasons(decision(cluster, pod(FIVE, policy="SingleNUMANode"))) == {"a": "Fits"}


def test_preferred_exclusivity_comes_last_instead_of_not_at_all() -> None:
    cluster = machine("a", 8, 8)
    cluster.upsert_pod(SHARED)
    asked = pod(FIVE, policy="SingleNUMANode", exclusive="Preferred")
    assert decision(cluster, asked).best(1) == (Candidate("a", 0, (0,), enforces=False),)
    roomier = machine("a", 8, 8, 8)
    roomier.upsert_pod(SHARED)
    (best,) = decision(roomier, asked).best(1)
    assert best.numa_nodes == (2,)
    assert best.score > 0


@pytest.mark.parametrize("weight", [0, 100])
def test_numa_nodes_of_others_come_last_however_much_their_node_is_preferred(weight: int) -> None:
    cluster = machine("a", 8, 8)
    cluster.upsert_pod(SHARED)
    for item in (node(name="b"), topology(node="b", free=cpus(8, 8), capacity={"cpu": 8000}, policy=NUMAPolicy.NONE)):
        tell(cluster, item)
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    terms = [{"weight": 100, "preference": named}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    asked = pod(FIVE, policy="SingleNUMANode", exclusive="Preferred", spec={"affinity": affinity})
    found = decision(cluster, asked, options=Options(preference_weight=weight)).best(2)
    assert [(one.node, one.preference) for one in found] == [("b", 0), ("a", 0)]


def test_without_a_policy_nobody_minds() -> None:
    cluster = machine("a", 8, 8, policy=SINGLE)
    cluster.upsert_pod(SHARED)
    assert reasons(decision(cluster, pod(FIVE))) == {"a": "Fits"}


def test_a_assumed_place_counts_like_a_taken_one() -> None:
    ledger = Ledger()
    ledger.put(Reservation.of("default/wide", "a", {0: {"cpu": 1}, 1: {"cpu": 1}}, {}, policy=RESTRICTED))
    asked = pod(FIVE, policy="SingleNUMANode")
    assert reasons(decision(machine("a", 8, 8), asked, ledger=ledger)) == {"a": "NUMANodeExclusive"}


@pytest.mark.parametrize(
    ("free", "score"),
    [
        # 5 of 8 CPUs and 1 of 64Gi, alone: (0.625 + 0.015) / 2 of 10 -> 3
        (8, 90 + 3),
        # all CPUs taken with the pod in: (1.0 + 0.015) / 2 of 10 -> 5
        (5, 90 + 5),
    ],
)
def test_the_packing_score_prefers_few_and_full_numa_nodes(free: int, score: int) -> None:
    assert decision(machine("a", free), pod(FIVE, policy="SingleNUMANode")).best(1)[0].score == score


def test_two_numa_nodes_cost_ten_points_each() -> None:
    # 10 of 16 CPUs, 100 of 128Gi: (0.625 + 0.781) / 2 of 10 -> 7
    asked = pod({"cpu": "10", "memory": "100Gi"}, policy="Restricted")
    assert decision(machine("a", 8, 8), asked).best(1)[0] == Candidate("a", 80 + 7, (0, 1), enforces=False)


def test_a_pod_bound_to_no_numa_node_counts_as_spread_over_all() -> None:
    assert decision(machine("a", 8, 8, 8, 8), pod(FIVE)).best(1)[0] == Candidate("a", 60, ())
    assert decision(state(node(name="a")), pod(FIVE)).best(1)[0] == Candidate("a", 0, ())


def test_where_no_kubelet_restricts_a_pod_may_take_more_numa_nodes_than_its_memory_needs() -> None:
    asked = pod({"cpu": "10", "memory": "1Gi"}, policy="Restricted")
    decided = decision(machine("a", 8, 8), asked)
    assert decided.best(1)[0].numa_nodes == (0, 1)
    assert decided.allocation(0) == ((0, {"cpu": 5000, "memory": GI // 2}), (1, {"cpu": 5000, "memory": GI // 2}))


def test_where_a_kubelet_restricts_the_resources_that_disagree_are_named() -> None:
    asked = pod({"cpu": "10", "memory": "1Gi"}, policy="Restricted")
    reason, sentence = decision(machine("a", 8, 8, policy=RESTRICTED), asked).explain(0)
    assert reason.code == "NotAligned"
    assert "cpu needs 2 NUMA nodes, memory 1: a restricted kubelet wants the same number for all" in sentence


def test_more_than_all_numa_nodes_have_is_no_number_of_numa_nodes() -> None:
    asked = pod({"cpu": "10", "memory": "8Gi"}, policy="Restricted")
    zones = [{"cpu": 8000, "memory": GI}] * 2
    amounts = {"cpu": 16000, "memory": 64 * GI, "pods": 9}
    cluster = state(
        node(name="a", allocatable=amounts), topology(node="a", free=zones, capacity=zones[0], policy=RESTRICTED)
    )
    _, sentence = decision(cluster, asked).explain(0)
    assert "cpu needs 2 NUMA nodes, memory more than the 2 there are: a restricted kubelet" in sentence


@pytest.mark.parametrize("publisher", [Publisher.SUBTRACTS, Publisher.TOTAL])
def test_of_the_numa_nodes_that_are_ours_to_choose_the_fullest_is_taken(publisher: Publisher) -> None:
    cluster = machine("a", 8, 4, policy=NONE)
    assert decision(cluster, pod({"cpu": "4"}, policy="SingleNUMANode")).best(1)[0].numa_nodes == (1,)
