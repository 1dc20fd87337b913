"""What happens if the API server refuses an end after others have begun, or someone goes away in between."""

import asyncio
from typing import Any

import pytest

from tests.property.preemptors import FullCluster, Holder
from tests.unit.controllers.preemption.leader import PreemptingLeader, begun, high, members, one_node, two_nodes
from webhook.controllers.preemption.wave import Waves
from webhook.kube.write import Outcome, Write
from webhook.placing.preemption.holds import Phase

# n0, n1 ── NUMA 0 [0 of 8], NUMA 1 [0 of 8]; a gang needs all four


def refuses(leader: PreemptingLeader, key: str, outcome: Outcome, times: int = 1000) -> None:
    """The real end of this pod meets with this outcome so often; dry runs pass."""
    remove, left = leader.api._remove, [times]

    def refused(removed: list[str], pod: str, uid: str, *, dry_run: bool) -> Write:
        leader.api.refusals = {}
        if pod == key and not dry_run and left[0]:
            left[0] -= 1
            leader.api.refusals = {key: outcome}
        return remove(removed, pod, uid, dry_run=dry_run)

    leader.api._remove = refused  # type: ignore[method-assign,assignment]


def ending(leader: PreemptingLeader) -> set[str]:
    return {key for key, raw in leader.api.pods.items() if "deletionTimestamp" in raw["metadata"]}


ALL = {"default/v00", "default/v01", "default/v10", "default/v11"}


@pytest.mark.parametrize(("retry_after", "times"), [(3.0, 2), (60.0, 1000)], ids=["in time", "bounded"])
async def test_an_end_that_is_postponed_is_retried_as_late_as_the_api_server_asks(
    retry_after: float, times: int
) -> None:
    leader = PreemptingLeader(two_nodes(), *members())
    leader.api.retry_after = retry_after
    refuses(leader, "default/v11", Outcome.NOT_NOW, times=times)
    await leader.round()
    assert sum(leader.slept) <= 20
    if times == 2:
        assert ending(leader) == ALL
        assert leader.slept == [3.0, 3.0]
        assert leader.holds == {"gang default/name/g": {"n0", "n1"}}


@pytest.mark.parametrize(("outcome", "times"), [(Outcome.NOT_NOW, 5), (Outcome.REFUSED, 1)])
async def test_the_place_is_kept_and_only_the_missing_end_is_searched_for(outcome: Outcome, times: int) -> None:
    leader = PreemptingLeader(two_nodes(), *members())
    refuses(leader, "default/v11", outcome, times)
    await leader.round()
    assert ending(leader) == ALL - {"default/v11"}
    assert set(leader.holds.values()) == {frozenset({"n0", "n1"})}
    assert len(leader.nominated()) == 4
    leader.controller.planner.preemptors._delays._clock = lambda: 1e9
    await leader.round()
    assert ending(leader) == ALL
    (hold,) = leader.controller.planner.preemptors.holds
    assert {**hold.earlier, **hold.victims}.keys() == ALL
    leader.end(*ALL)
    await leader.round()
    assert leader.waiting() == set()


async def test_if_the_missing_one_stays_refused_the_others_are_still_waited_for() -> None:
    leader = PreemptingLeader(two_nodes(), *members())
    refuses(leader, "default/v11", Outcome.REFUSED)
    await leader.round()
    leader.controller.planner.preemptors._delays._clock = lambda: 1e9
    await leader.round()
    (hold,) = leader.controller.planner.preemptors.holds
    assert hold.victims.keys() == ALL - {"default/v11"}
    assert hold.phase is Phase.ENDING


async def test_if_the_first_end_is_refused_the_place_is_given_up() -> None:
    leader = PreemptingLeader(one_node(), high())
    refuses(leader, "default/a", Outcome.NOT_NOW)
    await leader.round()
    assert leader.holds == {}
    assert leader.slept == []


async def test_the_event_names_no_text_of_other_tenants() -> None:
    leader = PreemptingLeader(one_node(), high())
    leader.api.error = '429 TooManyRequests: the budget "secret" of another tenant'
    leader.api.reason = "429 TooManyRequests"
    leader.api.refusals["default/a"] = Outcome.NOT_NOW
    await leader.round()
    (refused,) = (event.note for event in leader.api.events if event.reason == "PreemptionRefused")
    assert refused == "1 of 1 lower-priority pod cannot be evicted for it: 429 TooManyRequests"


async def test_the_nominations_of_a_gang_that_lost_a_member_are_removed() -> None:
    leader = await begun(two_nodes(), *members())
    assert len(leader.nominated()) == 4
    leader.api.delete("default/g-3")
    await leader.round()
    assert leader.nominated() == {}


async def test_a_nomination_whose_removal_was_lost_is_removed_later() -> None:
    leader = await begun(one_node(), high(priority=0))
    await leader.api.nominate("default/high", "high", "n0")
    for _ in range(2):
        leader.now += 5
        await leader.round()
        assert leader.nominated() == {"default/high": "n0"}, "a defragmentation may evict pods for it now"
    leader.now += 5
    await leader.round()
    assert leader.nominated() == {}


async def test_the_nomination_of_a_pod_that_was_ungated_meanwhile_stays() -> None:
    leader = await begun(one_node(), high(priority=0))
    await leader.api.nominate("default/high", "high", "n0")
    leader.api.shows = False
    raw = leader.api.pods["default/high"]
    leader.api.has({**raw, "metadata": {**raw["metadata"], "resourceVersion": "newer"}})
    for _ in range(3):
        leader.now += 5
        leader.preemption.check_holds(leader.now)
        await leader.preemption.settle()
    assert leader.nominated() == {"default/high": "n0"}


async def test_a_nomination_that_the_next_leader_cannot_use_is_removed() -> None:
    hopeless = FullCluster(("n0",), (Holder("a", "n0", 8, 500, numa=0), Holder("b", "n0", 8, 500, numa=1)))
    leader = PreemptingLeader(hopeless, high())
    await leader.api.nominate("default/high", "high", "n0")
    successor = leader.replaced_by()
    for _ in range(3):
        await successor.round()
        successor.now += 5
    assert successor.nominated() == {}


async def test_the_first_nominations_of_a_large_gang_stay_while_others_are_added() -> None:
    leader = PreemptingLeader(one_node(), *members(8, priority=0))
    for number in range(8):
        await leader.api.nominate(f"default/g-{number}", f"g-{number}", "n0")
        leader.now += 5
        await leader.round()
    assert len(leader.nominated()) == 8
    for _ in range(2):
        leader.now += 5
        await leader.round()
    assert leader.nominated() == {}


async def test_a_wave_whose_hold_was_dropped_ends_no_pod() -> None:
    leader = PreemptingLeader(one_node(), high())
    nominate = leader.api.nominate

    async def dropped_meanwhile(key: str, uid: str, node: str | None) -> Write:
        for hold in leader.controller.planner.preemptors.holds:
            leader.controller.planner.preemptors.holds.end(hold)
        return await nominate(key, uid, node)

    leader.api.nominate = dropped_meanwhile  # type: ignore[method-assign]
    await leader.round()
    assert leader.api.evicted == []


async def test_the_next_leader_searches_anew_at_once_if_the_wave_was_cut_off() -> None:
    leader = PreemptingLeader(two_nodes(), *members())
    refuses(leader, "default/v11", Outcome.REFUSED)
    await leader.round()
    successor = leader.replaced_by()
    await successor.round()
    assert successor.api.evicted == []
    searched = successor.searches()
    successor.end(*sorted(ALL - {"default/v11"}))
    await successor.round()
    assert [preemptor.name for preemptor, _ in searched] == ["gang default/name/g"]
    assert successor.holds == {}
    assert not successor.controller.planner.preemptors.in_vain.closed


async def test_whoever_is_cancelled_leaves_hold_and_nomination_to_the_next_leader() -> None:
    leader = PreemptingLeader(one_node(), high())
    began = asyncio.Event()

    async def hangs(key: str, uid: str, *, dry_run: bool = False) -> Write:
        del key, uid
        if not dry_run:
            began.set()
            await asyncio.sleep(3600)
        return Write(Outcome.WRITTEN)

    leader.api.evict = hangs  # type: ignore[method-assign]
    await leader.cycle()
    await leader.preemption.choose()
    await began.wait()
    for task in leader.preemption._tasks:
        task.cancel()
    await leader.preemption.settle()
    assert leader.holds == {"pod high": {"n0"}}
    assert leader.nominated() == {"default/high": "n0"}


async def test_no_more_pods_end_for_a_preemptor_that_is_gone() -> None:
    leader = PreemptingLeader(two_nodes(), *members())
    events: Any = leader.api
    leader.preemption._waves = Waves(leader.api, events, leader.metrics, leader.is_leader, 1, leader._sleep)
    evict = leader.api.evict

    async def and_the_preemptor_is_deleted(key: str, uid: str, *, dry_run: bool = False) -> Write:
        outcome = await evict(key, uid, dry_run=dry_run)
        if not dry_run and len(leader.api.evicted) == 1:
            for number in range(4):
                leader.api.delete(f"default/g-{number}")
            await leader.cycle()
            leader.preemption.check_holds(leader.now)
            assert leader.holds == {}
            await asyncio.sleep(0)
        return outcome

    leader.api.evict = and_the_preemptor_is_deleted  # type: ignore[method-assign]
    await leader.round()
    assert len(leader.api.evicted) == 1
