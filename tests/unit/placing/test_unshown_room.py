"""Room that victims left, and that no exporter has shown: preemptors take it before they end further pods."""

from random import Random
from typing import Any

import pytest

from tests.property.preemptors import FullCluster, Holder
from tests.unit.controllers.preemption.leader import LaggingLeader, high
from webhook.placing.preemption.holds import MOST_IN_VAIN

LAGS = [0.5, 4.0, 30.0]


def full(nodes: int = 2) -> FullCluster:
    """n0 ── NUMA 0 [0 of 8: v00]  NUMA 1 [0 of 8: v01], n1 likewise; v00 has the lowest priority, then v01."""
    names = [f"n{number}" for number in range(nodes)]
    pods = (Holder(f"v{n}{z}", name, 8, 2 * n + z, numa=z) for n, name in enumerate(names) for z in (0, 1))
    return FullCluster(tuple(names), tuple(pods))


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("after", [0.0, 0.5, 2.0])
async def test_a_second_equal_preemptor_ends_no_pod_while_there_is_room_for_both(lag: float, after: float) -> None:
    leader = LaggingLeader(full(), high("x", cpu=4), lag=lag)
    await leader.run_until_ended(1)
    await leader.run(after)
    leader.api.has(high("y", cpu=4, second=1))
    await leader.run(140)  # without a fingerprint, a report of x is certain only after two periods
    assert leader.api.evicted == ["default/v00"]
    assert {key: (pod.node, pod.numa) for key, pod in leader.placed.items()} == {
        "default/x": ("n0", 0),
        "default/y": ("n0", 0),
    }


@pytest.mark.parametrize("lag", LAGS)
async def test_a_preemptor_of_higher_priority_takes_the_freed_place_and_the_first_one_ends_another_pod(
    lag: float,
) -> None:
    leader = LaggingLeader(full(), high("x"), lag=lag)
    await leader.run_until_ended(1)
    leader.api.has(high("higher", priority=1000))
    await leader.run(2 * lag + 20)
    assert leader.placed.keys() == {"default/x", "default/higher"}
    assert (leader.placed["default/higher"].node, leader.placed["default/higher"].numa) == ("n0", 0)
    assert len(leader.api.evicted) == 2, "two pods for two"


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("priority", [100, 1000])
@pytest.mark.parametrize("is_gone_first", [False, True])
async def test_what_was_freed_for_a_preemptor_that_is_deleted_is_taken_by_the_next_one(
    lag: float, priority: int, *, is_gone_first: bool
) -> None:
    leader = LaggingLeader(full(), high("x"), lag=lag)
    if is_gone_first:
        await leader.run(1.0)  # the victim is being deleted
    else:
        await leader.run_until_ended(1)
    leader.api.delete("default/x")
    await leader.run(1.0)
    assert leader.holds == {}
    leader.api.has(high("y", priority=priority, second=1))
    await leader.run(1.0)
    if lag > 4:
        assert leader.holds == {"pod y": {"n0"}}
        assert leader.api.pods["default/y"]["status"]["nominatedNodeName"] == "n0"
    await leader.run(2 * lag + 10)
    assert leader.api.evicted == ["default/v00"]
    assert (leader.placed["default/y"].node, leader.placed["default/y"].numa) == ("n0", 0)


async def test_a_place_is_taken_once() -> None:
    leader = LaggingLeader(full(), high("x"), lag=30.0)
    await leader.run_until_ended(1)
    leader.api.delete("default/x")
    await leader.run(0.5)
    leader.api.has(high("y", second=1), high("z", second=2))
    await leader.run(3.0)
    assert leader.holds == {"pod y": {"n0"}, "pod z": {"n1"}}
    await leader.run(70.0)
    assert leader.placed.keys() == {"default/y", "default/z"}
    assert len(leader.api.evicted) == 2


async def test_room_is_forgotten_after_a_report_that_would_show_it() -> None:
    leader = LaggingLeader(full(), high("x"), lag=1e9)
    await leader.run_until_ended(1)
    leader.api.delete("default/x")
    await leader.run(11.0)
    unshown = leader.controller.planner.preemptors.unshown
    assert unshown.holdings().unshown.keys() == {"n0"}
    leader.cluster = FullCluster(leader.cluster.nodes, (*leader.cluster.pods, Holder("unseen", "n0", 8, 0, numa=0)))
    leader._publish("n0")  # another pod, which nothing else shows, got the room
    await leader.run(0.5)
    assert unshown.holdings().unshown == {}


async def test_a_silent_exporter_does_not_keep_room_from_preemptors_for_long() -> None:
    leader = LaggingLeader(full(), high("x"), lag=1e9)
    await leader.run_until_ended(1)
    leader.api.delete("default/x")
    await leader.run(131.0)
    assert leader.controller.planner.preemptors.unshown.holdings().unshown == {}


def looping(number: int, node: str) -> dict[str, Any]:
    """The only pod of a tenant, which may use this node alone."""
    return high(f"loop-{number}", namespace="greedy", nodeSelector={"kubernetes.io/hostname": node})


@pytest.mark.parametrize("lag", LAGS)
async def test_a_tenant_who_deletes_each_pod_when_its_victim_is_gone_ends_few_pods(lag: float) -> None:
    leader = LaggingLeader(full(20), lag=lag)
    for number in range(20):
        leader.api.has(looping(number, f"n{number}"))
        for _ in range(8):
            await leader.run(0.5)
            if len(leader.ended) == number + 1:
                break
        leader.api.delete(f"greedy/loop-{number}")
        await leader.run(0.5)
    assert leader.now < 90
    assert len(leader.api.evicted) <= MOST_IN_VAIN + 1, "one more after a minute"
    leader.api.has(high("modest"))
    await leader.run(2 * lag + 5)
    assert "default/modest" in leader.placed, "other tenants are not paused"
    leader.api.has(looping(20, "n19"))
    await leader.run(2.0)
    assert "preemption is paused" in leader.text("loop-20", "greedy")
    await leader.run(250 + 2 * lag)
    assert "greedy/loop-20" in leader.placed
    leader.api.has(looping(21, "n18"))
    await leader.run(2 * lag + 10)
    assert "greedy/loop-21" in leader.placed, "a pod that stayed is forgiven the others"


@pytest.mark.parametrize("lag", LAGS)
async def test_a_loop_over_equal_pods_ends_one_pod(lag: float) -> None:
    leader = LaggingLeader(full(4), lag=lag)
    for number in range(10):
        leader.api.has(high(f"loop-{number}", namespace="greedy"))
        await leader.run(0.5)
        leader.api.delete(f"greedy/loop-{number}")
        await leader.run(0.5)
        if f"greedy/loop-{number}" in leader.placed:
            break
    assert len(leader.api.evicted) == 1


@pytest.mark.parametrize("seed", range(12))
async def test_singles_that_come_one_after_the_other_end_as_few_pods_as_have_to(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    leader = LaggingLeader(full(4), lag=random.choice(LAGS))
    for number in range(6):
        leader.api.has(high(f"s{number}", cpu=4, second=number))
        await leader.run(random.choice((0.0, 0.5, 1.0, 3.0)))
    await leader.run(300)
    assert len(leader.placed) == 6
    assert len(leader.api.evicted) == 3
