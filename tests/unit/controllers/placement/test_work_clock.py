"""A work clock counts work, not the time spent waiting."""

from webhook.controllers.placement.work_clock import WorkClock


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
