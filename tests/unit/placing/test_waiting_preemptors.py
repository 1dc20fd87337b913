"""Whose turn it is to preempt if many wait, and that a place that `defrag` frees is held for who is nominated there."""

from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node
from tests.builders.pods import bound, gated
from tests.unit.views.one_node import WRITTEN_AT
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.holds import MOST_HOLDS, Hold
from webhook.placing.preemption.waiting_preemptors import WaitingPreemptors
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_cache import ClusterCache


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


ENDING = {"deletionTimestamp": "2030-01-01T02:00:10Z"}
RIVAL = GatedPod.from_object(gated(name="rival"))


def waits(nominated: str = "n0") -> GatedPod:
    return GatedPod.from_object({**gated(name="waits"), "status": {"nominatedNodeName": nominated}})


def beside_one_pod(metadata: dict[str, Any], **how: Any) -> WaitingPreemptors:
    """A term has begun, and one pod runs on n0."""
    cache = ClusterCache(clock=lambda: WRITTEN_AT, preempts=True)
    put(cache, node(name="n0", cpus=8), bound(name="a", node="n0", cpu=8, metadata=metadata, **how))
    found = WaitingPreemptors(cache, monotonic, is_enabled=True)
    found.collected([RIVAL], 0.0)
    return found


def test_it_is_held_while_the_pods_end() -> None:
    found = beside_one_pod(ENDING)
    found.collected([waits(), RIVAL], 1.0)
    assert found.closed_to(RIVAL) == {"n0"}
    assert not found.closed_to(waits())
    (hold,) = found.holds
    assert hold.text == "1 pod on node n0 must terminate first"


@pytest.mark.parametrize("how", [{"metadata": {}}, {"metadata": ENDING, "priority": 1}])
def test_a_nomination_alone_holds_nothing(how: dict[str, Any]) -> None:
    found = beside_one_pod(**how)
    found.collected([waits(), RIVAL], 1.0)
    assert not len(found.holds)


def test_a_hold_that_ended_in_vain_does_not_come_back() -> None:
    found = beside_one_pod(ENDING)
    found.collected([waits()], 1.0)
    (hold,) = found.holds
    found.holds.end(hold)
    found.collected([waits()], 2.0)
    assert not len(found.holds)
    found.collected([waits("")], 3.0)
    found.collected([waits()], 4.0)
    assert len(found.holds), "it was nominated again"
