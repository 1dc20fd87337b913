import numpy as np
import pytest

from tests.builders.pods import container
from tests.builders.records import GI, cpus, node, pod, state, topology
from webhook.engine import plugin
from webhook.engine.plugin import FilterFit, Strategy
from webhook.engine.reason import REASONS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.policy import NUMAPolicy, Scope

ZONE = {"cpu": 8000, "memory": 16 * GI}
ONE = {"cpu": "2", "memory": "4Gi"}


def asked(cluster: ClusterState, wanted: Pod) -> tuple[Snapshot, PodRequest]:
    snapshot = Snapshot(cluster.node_arrays())
    intent = NUMAIntent(policy=None, exclusive=None, managed=False)
    return snapshot, PodRequest.of(wanted, intent, snapshot.node_arrays.resources)


def filtered(cluster: ClusterState, wanted: Pod) -> FilterFit:
    return plugin.filter_nodes(*asked(cluster, wanted))


def scored(cluster: ClusterState, wanted: Pod, strategy: Strategy, **weights: int) -> int:
    return int(plugin.score_nodes(*asked(cluster, wanted), strategy, weights)[0])


def test_the_lowest_numa_node_with_enough_of_everything_is_taken() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE | {"cpu": 1000}, ZONE]))
    fit = filtered(cluster, pod(ONE))
    assert (fit.fits[0], fit.mask[0], fit.allocation(0)) == (True, 0b10, ((1, {"cpu": 2000, "memory": 4 * GI}),))


# n [3 3]: containers of 2, 2 and 2 CPUs
def test_app_containers_leave_less_to_those_after_them() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE | {"cpu": 3000}] * 2))
    assert filtered(cluster, pod(ONE, ONE)).mask[0] == 0b11
    fit = filtered(cluster, pod(ONE, ONE, ONE))
    assert (REASONS[fit.reason[0]], fit.failed[0]) == (Reason.NO_SINGLE_NUMA_NODE, 2)


def test_a_pod_that_is_not_guaranteed_fits_wherever_its_resources_are_listed() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE | {"cpu": 0}]))
    burstable = [container(requests={"cpu": "4"})]
    assert filtered(cluster, pod(spec={"containers": burstable})).fits[0]


@pytest.mark.parametrize("policy", [NUMAPolicy.NONE, NUMAPolicy.BEST_EFFORT, NUMAPolicy.RESTRICTED])
def test_other_policies_pass(policy: NUMAPolicy) -> None:
    assert filtered(state(node(name="n"), topology(node="n", free=cpus(0), policy=policy)), pod(ONE)).fits[0]


def test_a_node_without_a_topology_passes() -> None:
    assert filtered(state(node(name="bare")), pod(ONE)).fits[0]


# [8 cpus, 16Gi] with 2 and 4Gi asked for
@pytest.mark.parametrize(
    ("strategy", "score"),
    [
        (Strategy.LEAST_ALLOCATED, 75),
        (Strategy.MOST_ALLOCATED, 25),
        (Strategy.BALANCED_ALLOCATION, 100),
        # 100 - 100 // 8 for one NUMA node, + half of that for the distance
        (Strategy.LEAST_NUMA_NODES, 94),
    ],
)
def test_each_strategy_scores_as_shipped(strategy: Strategy, score: int) -> None:
    assert scored(state(node(name="n"), topology(node="n", free=[ZONE])), pod(ONE), strategy) == score


# 2^30 + 1 of 2^30 + 2 bytes: less than 100, and 2^53 + 1 of 2^53: in float64 not more than 100
@pytest.mark.parametrize(
    ("strategy", "memory", "free", "score"),
    [(Strategy.MOST_ALLOCATED, 2**30 + 1, 2**30 + 2, 99), (Strategy.BALANCED_ALLOCATION, 2**53 + 1, 2**53, 100)],
)
def test_amounts_beyond_what_floats_hold_score_as_shipped(
    strategy: Strategy, memory: int, free: int, score: int
) -> None:
    cluster = state(node(name="n"), topology(node="n", free=[{"cpu": 2000, "memory": free}]))
    assert scored(cluster, pod({"cpu": "2", "memory": str(memory)}), strategy) == score


def test_weights_shift_the_mean() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[{"cpu": 4000, "memory": 16 * GI}]))
    assert scored(cluster, pod(ONE), Strategy.LEAST_ALLOCATED) == (50 + 75) // 2
    assert scored(cluster, pod(ONE), Strategy.LEAST_ALLOCATED, memory=3) == (50 + 3 * 75) // 4
    assert scored(cluster, pod(ONE), Strategy.LEAST_ALLOCATED, memory=-5) == (50 + 75) // 2


def test_the_smallest_score_that_is_not_zero_counts() -> None:
    cluster = state(
        node(name="n"), topology(node="n", free=[ZONE, ZONE | {"cpu": 2000}, ZONE | {"cpu": 0, "memory": 0}])
    )
    assert scored(cluster, pod(ONE), Strategy.LEAST_ALLOCATED) == (0 + 75) // 2


# n [2 2 2]: 3 CPUs need two of three NUMA nodes
def test_fewest_numa_nodes_are_counted_whatever_the_policy() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE | {"cpu": 2000}] * 3, policy=NUMAPolicy.NONE))
    assert scored(cluster, pod({"cpu": "3", "memory": "1Gi"}), Strategy.LEAST_NUMA_NODES) == 100 - 2 * 12 + 6
    assert scored(cluster, pod({"cpu": "7", "memory": "1Gi"}), Strategy.LEAST_NUMA_NODES) == 0


def test_a_pod_that_is_not_guaranteed_scores_the_same_everywhere() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE]))
    assert {scored(cluster, pod({}), strategy) for strategy in Strategy} == {100}


def test_numa_ids_with_gaps_are_scored_where_upstream_panics() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE] * 2, ids=(3, 9)))
    assert scored(cluster, pod(ONE), Strategy.LEAST_ALLOCATED) == 75


def test_a_container_that_asks_for_nothing_does_not_count_where_upstream_divides_by_zero() -> None:
    guaranteed = pod({}, ONE, spec={"resources": {"requests": ONE, "limits": ONE}})
    cluster = state(node(name="n"), topology(node="n", free=[ZONE]))
    assert scored(cluster, guaranteed, Strategy.LEAST_ALLOCATED) == 75


def test_a_single_resource_is_balanced_where_upstream_has_no_number() -> None:
    guaranteed = pod({"cpu": "2"}, spec={"resources": {"requests": ONE, "limits": ONE}})
    assert (
        scored(state(node(name="n"), topology(node="n", free=[ZONE])), guaranteed, Strategy.BALANCED_ALLOCATION) == 100
    )


def test_scope_pod_scores_the_pod_as_a_whole() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE], scope=Scope.POD))
    assert scored(cluster, pod(ONE, ONE), Strategy.MOST_ALLOCATED) == 50
    assert np.array_equal(filtered(cluster, pod(ONE, ONE)).mask, [1])


# n [8 cpu, 16Gi]: cpu and memory keep 75 of 100 free each; what the overhead names is asked for, too, if only with zero
@pytest.mark.parametrize(("overhead", "score"), [({}, 75), ({"hugepages-2Mi": "0"}, 50)])
def test_an_overhead_of_nothing_counts_in_the_score(overhead: dict[str, str], score: int) -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE], scope=Scope.POD))
    assert scored(cluster, pod(ONE, spec={"overhead": overhead}), Strategy.LEAST_ALLOCATED) == score
