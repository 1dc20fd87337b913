"""A work clock counts work, not the time spent waiting."""

import asyncio

import pytest

from webhook.controllers.sweep import WorkClock, rest_after


async def test_waiting_does_not_count_as_work() -> None:
    now = 0.0
    work = WorkClock(lambda: now)

    async def answer() -> str:
        nonlocal now
        now += 30.0
        return "late"

    now += 1.0
    assert await work.wait_for(answer()) == "late"
    now += 2.0
    await work.pause()
    assert work.seconds() == 3.0


async def test_other_tasks_run_after_a_turn_of_work_and_not_before() -> None:
    now = 0.0
    work = WorkClock(lambda: now)
    turns: list[str] = []

    async def step(name: str) -> None:
        asyncio.get_running_loop().call_soon(turns.append, f"others after {name}")
        turns.append(name)
        await work.pause_after_a_turn()

    await step("a short step")
    now += 0.0015
    await step("a second one")
    now += 0.0015
    await step("a third one")
    assert turns == [
        "a short step",
        "a second one",
        "a third one",
        "others after a short step",
        "others after a second one",
        "others after a third one",
    ]


@pytest.mark.parametrize(("in_vain", "rest"), [(0.0, 0.0), (0.03, 0.12), (60.0, 2.0)])
def test_the_rest_after_work_in_vain_is_bounded(in_vain: float, rest: float) -> None:
    assert rest_after(in_vain) == pytest.approx(rest)
