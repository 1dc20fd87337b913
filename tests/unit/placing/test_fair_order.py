"""Thousands of pods that fit nowhere, each of another shape, delay others by a bounded number of decisions."""

from tests.unit.controllers.placement.busy_cluster import DECISION_SECONDS, BusyCluster
from webhook.placing.fair_order import PART_SECONDS

PER_CYCLE = 2 * round(PART_SECONDS / DECISION_SECONDS)


def crowd(cluster: BusyCluster, count: int, namespace: str = "crowd") -> None:
    """So many pods that fit nowhere now, each of another shape."""
    for number in range(count):
        cluster.create(namespace, f"p{number:04}", str(100 + number))


async def test_a_pod_of_another_namespace_that_comes_last_is_placed_in_the_next_cycle() -> None:
    cluster = BusyCluster()
    crowd(cluster, 3000)
    assert await cluster.play() <= PER_CYCLE + 2
    cluster.create("others", "fits", "2", created=9)
    assert await cluster.cycles_until_placed("others/fits") == 1
    assert cluster.decisions <= 2 * (PER_CYCLE + 2)


async def test_it_is_however_long_a_decision_takes() -> None:
    cluster = BusyCluster()
    cluster.takes = 1.0
    crowd(cluster, 100)
    crowd(cluster, 100, "another")
    for _ in range(3):
        assert await cluster.play() == 2
    cluster.create("others", "fits", "2", created=9)
    assert await cluster.cycles_until_placed("others/fits") == 1


async def test_so_is_one_of_the_same_namespace_once_the_others_were_tried() -> None:
    cluster = BusyCluster()
    crowd(cluster, 300)
    while await cluster.play():
        pass
    cluster.change()
    cluster.create("crowd", "fits", "2", created=9)
    assert await cluster.cycles_until_placed("crowd/fits") == 1


async def test_everybody_has_a_turn_though_the_cluster_changes_all_the_time() -> None:
    cluster = BusyCluster()
    crowd(cluster, 300)
    cluster.create("crowd", "fits", "2", created=9)
    for _ in range(300 // (PER_CYCLE // 2) + 1):
        cluster.change()
        await cluster.play()
    assert "crowd/fits" not in cluster.cache.gated_pods()


async def test_what_failed_is_not_tried_again_while_nothing_changes() -> None:
    cluster = BusyCluster()
    crowd(cluster, 120)
    made = [await cluster.play() for _ in range(10)]
    assert sum(made) == 120
    assert made[-1] == 0
    cluster.create("others", "too-large", "1000")  # another pod that waits changes nothing for those
    assert await cluster.play() == 1
    cluster.change()
    assert await cluster.play() > 1


async def test_what_failed_beside_assumed_pods_of_its_own_cycle_is_tried_again_when_those_end() -> None:
    cluster = BusyCluster()
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
    names = ["a", "b", "c"]
    for created, name in enumerate(names):
        cluster.create("default", name, "8", created, volumes=volumes)
    for count, name in enumerate(names, 1):
        # Nothing is reserved when the cycle begins, nor when the next one does: each pod fills the node for a moment.
        await cluster.play()
        assert len(cluster.cache.gated_pods()) == len(names) - count
        cluster.cannot_be_bound(f"default/{name}")


async def test_a_cycle_that_does_not_reach_all_has_another_one_follow_and_the_last_one_none() -> None:
    cluster = BusyCluster()
    crowd(cluster, 120)
    cycles, woken = 0, True
    while woken:
        cluster.controller._wake.clear()
        await cluster.play()
        cycles, woken = cycles + 1, cluster.controller._wake.is_set()
    assert cluster.decisions == 120
    assert cycles >= 120 // (PER_CYCLE + 2)


async def test_where_few_wait_the_oldest_goes_first_whosever_it_is() -> None:
    cluster = BusyCluster()
    cluster.create("a", "young", "8", created=5)
    cluster.create("b", "old", "7", created=1)
    await cluster.play()
    assert cluster.cache.gated_pods().keys() == {"a/young"}
