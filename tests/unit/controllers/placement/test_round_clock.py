"""Work is what was worked, whatever was waited for."""

from webhook.controllers.placement.round_clock import Work


async def test_waiting_is_no_work() -> None:
    now = 0.0
    work = Work(lambda: now)

    async def answer() -> str:
        nonlocal now
        now += 30.0
        return "late"

    now += 1.0
    assert await work.wait_for(answer()) == "late"
    now += 2.0
    await work.pause()
    assert work.seconds() == 3.0
