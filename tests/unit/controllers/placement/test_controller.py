"""One cycle of the placement controller over the pods behind the gate."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from tests.builders.clusters import machine, put
from tests.builders.nodes import node
from tests.builders.pods import gated
from tests.unit.controllers.leader import Leader
from webhook.controllers.placement import controller
from webhook.internal_errors import Where, internal_error_counts
from webhook.kube.write import Write
from webhook.model.names import MIN_MEMBER, PLACEMENT
from webhook.placing import planner
from webhook.placing.pod.assignment import find_assignment
from webhook.placing.pod.gated_pods import GatedPod

# n0 ── NUMA 0 [8]      [free cpus]; a pod asks for 8
ROOM_FOR_ONE = machine(name="n0", free=(8,))

# n0 ── NUMA 0 [8]  NUMA 1 [8]
ROOM_FOR_TWO = machine(name="n0", free=(8, 8))


async def test_the_place_goes_by_priority_then_age_then_name() -> None:
    leader = Leader(*ROOM_FOR_ONE)
    leader.api.has(
        gated(name="b", second=5),
        gated(name="a", second=5),
        gated(name="old", second=1),
        gated(name="urgent", second=9, priority=100),
    )
    order = []
    while before := leader.waiting():
        await leader.cycle()
        (placed,) = before - leader.waiting()
        order.append(placed)
        leader.api.delete(f"default/{placed}")  # which makes room for the next one
    assert order == ["urgent", "old", "a", "b"]


async def test_a_smaller_pod_behind_one_that_fits_nowhere_is_placed_in_the_same_cycle() -> None:
    leader = Leader(*ROOM_FOR_ONE)
    leader.api.has(gated(name="large", cpu="16", priority=100), gated(name="small"))
    await leader.cycle()
    assert leader.waiting() == {"large"}


async def test_what_one_pod_was_given_no_other_one_gets_before_the_cache_shows_it() -> None:
    leader = Leader(*ROOM_FOR_ONE)
    leader.api.has(gated(name="first", second=1), gated(name="second", second=2))
    leader.api.shows = False
    await leader.cycle()
    await leader.cycle()
    assert leader.nodes() == {"first": "n0"}


def members(count: int, minimum: int) -> list[dict[str, object]]:
    return [gated(name=f"g-{n}", group="g", annotations={MIN_MEMBER: str(minimum)}) for n in range(count)]


async def test_a_gang_is_placed_whole_in_the_cycle_in_which_it_fits_and_no_member_before() -> None:
    leader = Leader(*ROOM_FOR_TWO)
    for size in (2, 3):  # fewer than its minimum, and more than there is room for
        leader.api.has(*members(size, minimum=3))
        await leader.cycle()
        assert leader.api.patched == []
    put(leader.cache, *machine(name="n1", free=(8,)))
    await leader.cycle()
    assert leader.waiting() == set()
    assert sorted(leader.nodes().values()) == ["n0", "n0", "n1"]


async def test_a_gang_that_waits_takes_nothing_from_a_single_pod_behind_it() -> None:
    leader = Leader(*ROOM_FOR_TWO)
    leader.api.has(*members(3, minimum=3), gated(name="single", second=9))
    await leader.cycle()
    assert leader.nodes() == {"single": "n0"}


async def test_a_pod_that_our_code_fails_on_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_on_bad(*arguments: object) -> object:
        if "bad" in repr(arguments[1]):
            raise ZeroDivisionError
        return find_assignment(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(planner, "find_assignment", fails_on_bad)
    before = internal_error_counts().get(Where.POD, 0)
    leader = Leader(*ROOM_FOR_TWO)
    leader.api.has(gated(name="bad", priority=100), gated(name="good", cpu="4"))
    await leader.cycle()
    assert leader.waiting() == {"bad"}
    assert internal_error_counts()[Where.POD] == before + 1


# n0 ── NUMA 0 [8];  large ── cordoned      [free cpus]
async def test_the_flood_of_a_namespace_does_not_starve_the_pod_of_another_one() -> None:
    ticks = count()
    large = node(name="large", cpus=1000, unschedulable=True)
    # Each look at the clock is a millisecond later.
    leader = Leader(*ROOM_FOR_ONE, large, clock=lambda: next(ticks) / 1000)
    leader.api.has(*(gated(name=f"f{n}", namespace="flood", cpu=str(20 + n)) for n in range(200)))
    leader.api.has(gated(name="mine", namespace="other", second=59))
    await leader.cycle()
    assert leader.nodes() == {"mine": "n0"}
    assert len(leader.waiting()) == 200


async def until_none_waits(leader: Leader, task: asyncio.Task[Any]) -> None:
    """Let the leader run until all pods are placed, then end it."""
    async with asyncio.timeout(60):
        while leader.waiting():  # noqa: ASYNC110 # nothing to wait on
            await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_changes_cost_no_cycle_while_no_pod_is_gated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "_COALESCE_SECONDS", 0.0)
    leader, begun = Leader(*ROOM_FOR_ONE), []
    cycle = leader.controller._cycle

    async def counted() -> float:
        begun.append(leader.waiting())
        return await cycle()

    monkeypatch.setattr(leader.controller, "_cycle", counted)
    task = asyncio.create_task(leader.controller.run())
    for number in range(3):
        put(leader.cache, node(name=f"n{number}"))
        for _ in range(5):
            await asyncio.sleep(0)
    assert begun == [set()]
    leader.api.has(gated(name="a"))
    await until_none_waits(leader, task)
    assert begun[1] == {"a"}


async def test_no_cycle_runs_while_all_placements_are_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(*ROOM_FOR_TWO)
    answered = asyncio.Event()
    begun: list[set[str]] = []
    units: list[list[str]] = []
    cycle, patch = leader.controller._cycle, leader.api.patch
    collected = leader.controller.planner.lacking_room.collected

    async def counted() -> float:
        begun.append(leader.waiting())
        return await cycle()

    def noted(found: Sequence[GatedPod], now: float) -> None:
        units.append([unit.pod.name for unit in found])
        collected(found, now)

    async def slow(key: str, operations: Sequence[dict[str, Any]]) -> Write:
        await answered.wait()
        return await patch(key, operations)

    monkeypatch.setattr(controller, "_COALESCE_SECONDS", 0.0)
    monkeypatch.setattr(leader.controller, "_cycle", counted)
    monkeypatch.setattr(leader.controller.planner.lacking_room, "collected", noted)
    monkeypatch.setattr(leader.api, "patch", slow)
    leader.api.has(gated(name="a"))
    task = asyncio.create_task(leader.controller.run())
    for number in range(1, 4):
        await asyncio.sleep(0.01)
        put(leader.cache, node(name=f"n{number}"))
    assert begun == [{"a"}]
    leader.api.has(gated(name="b"))
    await asyncio.sleep(0.01)
    assert begun == [{"a"}, {"a", "b"}], "another pod waits"
    assert units == [["a"], ["b"]], "nothing is left to do for the first one"
    answered.set()
    await until_none_waits(leader, task)
    assert leader.nodes() == {"a": "n0", "b": "n0"}


# n0 ── NUMA 0 [2 of 16]      [free cpus]; a pod asks for 8
ALMOST_FULL = machine(name="n0", free=(2,))


def waiting_since(year: int, **how: Any) -> dict[str, Any]:
    return gated(metadata={"creationTimestamp": f"{year}-01-01T00:00:00Z"}, **how)


async def test_a_pod_that_has_waited_too_long_is_ungated_says_why_and_is_kept_off_nodes_that_can_never_take_it() -> (
    None
):
    leader = Leader(*ALMOST_FULL, node(name="tiny", cpus=1), ungate_after=60)
    leader.api.has(waiting_since(2020))
    await leader.cycle()
    assert leader.waiting() == set()
    raw = leader.api.pods["default/p"]
    assert "ungated without an assignment after 60 s" in raw["metadata"]["annotations"][PLACEMENT]
    assert leader.api.told() == [("default/p", "Ungated")]
    affinity = str(raw["spec"]["affinity"]["nodeAffinity"])
    assert ("tiny" in affinity, "n0" in affinity) == (True, False)


@pytest.mark.parametrize(("ungate_after", "year"), [(0, 2020), (60, 2999)], ids=["switched off", "too young"])
async def test_otherwise_it_stays_behind_the_gate(ungate_after: float, year: int) -> None:
    leader = Leader(*ALMOST_FULL, ungate_after=ungate_after)
    leader.api.has(waiting_since(year))
    await leader.cycle()
    assert leader.waiting() == {"p"}
    assert leader.api.patched == []


async def test_a_pod_that_fits_is_placed_however_long_it_has_waited() -> None:
    leader = Leader(*machine(name="n0", free=(8,)), ungate_after=60)
    leader.api.has(waiting_since(2020))
    await leader.cycle()
    assert leader.nodes() == {"p": "n0"}
