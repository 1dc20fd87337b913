"""A new leader places nothing before what the last one has under way can do no harm."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest

from tests.builders.clusters import machine
from tests.builders.pods import gated
from tests.unit.controllers.leader import Leader
from webhook.controllers.placement import assignment_writer, controller, fence
from webhook.kube.pacing import Backoff
from webhook.kube.write import Outcome

# n0 ── NUMA 0 [8]  NUMA 1 [8]      [free cpus]; a pod asks for 8
ROOM_FOR_TWO = machine(name="n0", free=(8, 8))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(controller, "_COALESCE_SECONDS", 0.0)


@asynccontextmanager
async def running(leader: Leader) -> AsyncIterator[None]:
    task = asyncio.create_task(leader.controller.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 # nothing to wait on: the condition is any expression
            await asyncio.sleep(0)


async def turns() -> None:
    """Everything that can go on without news goes on."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_every_gated_pod_is_changed_once_before_any_is_placed() -> None:
    leader = Leader(*ROOM_FOR_TWO)
    leader.unsettled = 60.0
    leader.api.has(gated(name="a"), gated(name="b"))
    async with running(leader):
        await until(lambda: leader.waiting() == set())
    assert sorted(leader.api.annotated) == ["default/a", "default/b"]


async def test_nothing_is_placed_until_the_cache_shows_those_changes() -> None:
    leader = Leader(*ROOM_FOR_TWO)
    leader.unsettled = 60.0
    leader.api.has(gated(name="a"))
    leader.api.shows = False
    async with running(leader):
        await until(lambda: leader.api.annotated == ["default/a"])
        await turns()
        assert leader.api.patched == []
        leader.api.shows = True
        leader.api.show()
        await until(lambda: leader.nodes() == {"a": "n0"})


async def test_once_all_that_the_last_leader_assumed_must_be_visible_nothing_is_waited_for() -> None:
    leader = Leader(*ROOM_FOR_TWO)
    leader.unsettled = 60.0
    leader.api.has(gated(name="a"))
    leader.api.shows = False
    async with running(leader):
        await until(lambda: leader.api.annotated == ["default/a"])
        leader.unsettled = 0.0
        await until(lambda: leader.api.patched == ["default/a"])


async def test_a_leader_that_follows_no_other_changes_no_pod_before_it_places_it() -> None:
    leader = Leader(*ROOM_FOR_TWO)
    leader.api.has(gated(name="a"))
    async with running(leader):
        await until(lambda: leader.nodes() == {"a": "n0"})
    assert leader.api.annotated == []


async def test_nothing_is_placed_when_the_term_ends_while_pods_are_fenced() -> None:
    leader = Leader(*ROOM_FOR_TWO)
    leader.unsettled = 60.0
    leader.api.has(gated(name="a"))
    leader.api.shows = False
    async with running(leader):
        await until(lambda: leader.api.annotated == ["default/a"])
        leader.controller.stopped()
        leader.api.shows = True
        leader.api.show()
        await turns()
    assert leader.api.patched == []


async def test_a_write_that_did_not_go_through_is_not_repeated_after_the_term_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assignment_writer, "Backoff", partial(Backoff, base=0.0))
    leader = Leader(*ROOM_FOR_TWO)
    leader.api.has(gated(name="a"))
    leader.api.outcome = Outcome.NOT_NOW
    await leader.controller._cycle()
    await until(lambda: leader.api.patched != [])
    leader.controller.stopped()
    leader.api.patched.clear()
    leader.api.outcome = Outcome.WRITTEN
    await leader.controller.settle()
    assert leader.api.patched == []
    assert leader.cache.assumed_node("default/a") is None


async def test_a_cycle_of_a_replica_that_does_not_lead_places_nothing() -> None:
    leader = Leader(*ROOM_FOR_TWO)
    leader.leads = False
    leader.api.has(gated(name="a"))
    await leader.cycle()
    assert leader.api.patched == []


@pytest.mark.parametrize("recreated", [False, True])
async def test_it_does_not_wait_for_a_pod_that_was_deleted_and_created_again(*, recreated: bool) -> None:
    leader = Leader(*ROOM_FOR_TWO)
    leader.unsettled = 60.0
    leader.api.has(gated(name="a"), gated(name="b"))
    leader.api.shows = False
    async with running(leader):
        await until(lambda: sorted(leader.api.annotated) == ["default/a", "default/b"])
        leader.api.delete("default/a")
        if recreated:
            leader.api.pods["default/a"] = gated(name="a", metadata={"uid": "another"})
        leader.api.shows = True
        leader.api.show()
        await turns()
        assert leader.api.patched
