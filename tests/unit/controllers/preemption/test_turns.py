"""Whose turn it is to preempt, if many wait."""

from collections.abc import Iterator
from time import monotonic

from tests.builders.clusters import cluster_cache
from tests.builders.pods import gated
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.holds import MOST_HOLDS, Hold
from webhook.placing.preemption.waiting_preemptors import WaitingPreemptors
from webhook.placing.waiting_unit import WaitingUnit


def waiting(name: str, namespace: str, priority: int, cpu: int) -> WaitingUnit:
    return WaitingUnit(GatedPod.from_object(gated(name=name, namespace=namespace, priority=priority, cpu=cpu)))


def hopeless_turns(preemptors: WaitingPreemptors, count: int) -> Iterator[str]:
    for _ in range(count):
        preemptor = preemptors.next()
        if preemptor is None:
            return
        preemptors.hopeless(preemptor)
        yield preemptor.members[0].key


def crowd(count: int, *, alike: bool = False) -> WaitingPreemptors:
    """A tenant with so many pods of high priority, and one pod of low priority of another."""
    preemptors = WaitingPreemptors(cluster_cache(), monotonic, is_enabled=True)
    for number in range(count):
        preemptors.unfit(waiting(f"p{number:03}", "greedy", 100, 1 if alike else number + 1))
    preemptors.unfit(waiting("small", "modest", 10, 1))
    return preemptors


def test_the_highest_in_order_comes_first_and_another_tenant_right_after() -> None:
    assert list(hopeless_turns(crowd(100), 2)) == ["greedy/p000", "modest/small"]


def test_each_has_one_turn_until_the_cluster_changes() -> None:
    turns = list(hopeless_turns(crowd(20), 100))
    assert len(turns) == len(set(turns)) == 21


def test_equal_pods_share_a_result() -> None:
    assert len(list(hopeless_turns(crowd(1000, alike=True), 100))) == 2


def test_after_a_change_a_hopeless_one_still_has_its_delay() -> None:
    preemptors = crowd(1)
    list(hopeless_turns(preemptors, 10))
    preemptors.changed()
    assert preemptors.next() is None
    preemptors._delays._clock = lambda: 1e12
    assert preemptors.next() is not None


def test_those_that_no_longer_wait_are_forgotten() -> None:
    preemptors = crowd(3)
    preemptors.collected([], 0.0)
    assert preemptors.next() is None
    assert preemptors._kind_of == preemptors._kinds == {}


def test_where_preemption_is_off_no_pod_has_a_turn() -> None:
    preemptors = WaitingPreemptors(cluster_cache(), monotonic)
    preemptors.unfit(waiting("p", "default", 10, 1))
    assert preemptors.next() is None


def test_when_all_places_are_held_only_a_higher_priority_has_a_turn() -> None:
    preemptors = WaitingPreemptors(cluster_cache(), monotonic, is_enabled=True)
    for number in range(MOST_HOLDS):
        key = f"{'ab'[number % 2]}/p{number}"
        preemptors.holds.add(Hold(key, 50, frozenset({f"n{number}"}), {key: key}, {}))
    preemptors.unfit(waiting("same", "c", 50, 1))
    assert preemptors.next() is None
    preemptors.unfit(waiting("higher", "c", 51, 1))
    chosen = preemptors.next()
    assert chosen is not None
    assert chosen.members[0].key == "c/higher"
