"""The bare scheduler's choice, with scores worked out by hand after the scheduler's sources."""

from typing import Any

import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node
from tests.builders.pods import container, plain
from webhook.engine.arrays import all_nodes
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import Pod
from webhook.simulation.placement import BareScheduler, Choice, _nodes_to_find, _scores


def pod(cpu: str = "4", memory: str = "4Gi", **spec: Any) -> Pod:
    requests = {"cpu": cpu, "memory": memory} if cpu else {}
    return Pod.from_object(plain(containers=[container(requests=requests)], **spec))


def nodes(*raws: dict[str, Any]) -> Snapshot:
    return cluster_snapshot(*raws).nodes


def test_the_node_with_the_largest_free_share_is_chosen() -> None:
    snapshot = nodes(node(name="small", cpus=8, memory="32Gi"), node(name="large", cpus=32, memory="128Gi"))
    assert BareScheduler(0).choose(snapshot, pod()) == Choice("large", sure=True)


def test_the_score_is_that_of_least_allocated_and_balanced_allocation() -> None:
    snapshot = nodes(node(name="n", cpus=16, memory="64Gi"))
    # LeastAllocated: (12/16 + 48/64) / 2 = 75. Balanced: 50 + (50 + 100 - 100) / 2 = 75.
    assert _scores(snapshot, pod("4", "16Gi"), all_nodes(1)).tolist() == [150]
    # LeastAllocated: (8/16 + 64/64) / 2, memory rounded down: (50 + 99) // 2 = 74.
    # Balanced: with the pod 1 - |0.5 - 0| / 2 = 75, without it 100: 50 + (50 + 75 - 100) // 2 = 62.
    assert _scores(snapshot, pod("8", "1"), all_nodes(1)).tolist() == [74 + 62]


def test_a_pod_without_requests_is_scored_by_the_defaults_and_not_by_balance() -> None:
    # 100 millicores of 16 CPUs and 200Mi of 64Gi, each rounded down.
    assert _scores(nodes(node(name="n", cpus=16, memory="64Gi")), pod(""), all_nodes(1)).tolist() == [99]


def test_preferred_affinity_and_soft_taints_count_as_in_the_scheduler() -> None:
    term = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    taints = [{"key": "soft", "effect": "PreferNoSchedule"}]
    equal = nodes(node(name="a", labels={"disk": "ssd"}, taints=taints), node(name="b"))
    # Affinity: 2 x 100 for a. Taints: 3 x 100 for b.
    assert BareScheduler(0).choose(equal, pod(affinity=affinity)) == Choice("b", sure=True)


def test_equal_nodes_are_drawn_by_the_seed() -> None:
    snapshot = nodes(*(node(name=f"n{number}") for number in range(8)))

    def drawn(seed: int) -> list[Choice | None]:
        scheduler = BareScheduler(seed)
        return [scheduler.choose(snapshot, pod()) for _ in range(20)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert not any(choice.sure for choice in drawn(1) if choice is not None)


def test_a_pod_that_fits_nowhere_gets_no_node() -> None:
    assert BareScheduler(0).choose(nodes(node(name="n", cpus=2)), pod()) is None


@pytest.mark.parametrize(("n", "found"), [(99, 100), (100, 100), (250, 120), (1500, 570), (10_000, 500)])
def test_a_large_cluster_is_sampled_as_by_the_scheduler(n: int, found: int) -> None:
    assert _nodes_to_find(n) == found


def test_the_next_pod_is_tried_from_where_the_last_one_stopped() -> None:
    snapshot = nodes(*(node(name=f"n{number:03}") for number in range(150)))
    scheduler = BareScheduler(0)
    scheduler.choose(snapshot, pod())
    assert scheduler._start == 100
    scheduler.choose(snapshot, pod())
    assert scheduler._start == 50
