"""Other tasks run when a turn is over."""

import asyncio

from webhook.kube.pacing import TURN_SECONDS, Turns


async def test_other_tasks_run_between_two_turns_and_not_within_one() -> None:
    now = 0.0
    log = []
    turns = Turns(lambda: now)

    async def other() -> None:
        log.append("other")

    task = asyncio.create_task(other())
    assert not turns.is_over()
    now = TURN_SECONDS
    assert turns.is_over()
    assert log == []
    await turns.next()
    assert task.done()
    assert log == ["other"]
    assert not turns.is_over()
    now = 2 * TURN_SECONDS
    assert turns.is_over()
