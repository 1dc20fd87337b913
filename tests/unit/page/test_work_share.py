"""The page's work rests, so that a replica's reviews have nine tenths of the time."""

import asyncio
from functools import partial

import pytest

from webhook.page import work_share
from webhook.page.work_share import MAX_WAITING, BusyError, WorkShare


class Clock:
    """A clock that only work and rests move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.rests: list[float] = []
        monkeypatch.setattr(work_share, "rest", self._rest)

    async def _rest(self, seconds: float) -> None:
        self.rests.append(round(seconds, 3))
        self.now += seconds

    def work(self, seconds: float) -> str:
        self.now += seconds
        return "done"


async def test_a_rest_is_nine_times_as_long_as_the_work_and_at_most_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    share = WorkShare(9.0, lambda: clock.now)
    for seconds in (0.01, 0.05, 2.0, 0.0):
        assert await share.run(partial(clock.work, seconds)) == "done"
    assert clock.rests == [0.0, 0.09, 0.45, 1.0]


async def test_a_process_of_its_own_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    share = WorkShare(0.0, lambda: clock.now)
    for _ in range(3):
        await share.run(lambda: clock.work(0.5))
    assert clock.rests == [0.0, 0.0, 0.0]


async def test_work_that_fails_rests_too_and_frees_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    share = WorkShare(9.0, lambda: clock.now)

    def fail() -> None:
        clock.work(0.02)
        raise LookupError

    with pytest.raises(LookupError):
        await share.run(fail)
    assert await share.run(lambda: clock.work(0.0)) == "done"
    assert clock.rests == [0.0, 0.18]


async def test_only_so_many_requests_wait() -> None:
    share = WorkShare(0.0)
    gate = asyncio.Event()

    async def rest(_: float) -> None:
        await gate.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work_share, "rest", rest)
        waiting = [asyncio.create_task(share.run(lambda: 1)) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await share.run(lambda: 1)
        gate.set()
        assert await asyncio.gather(*waiting) == [1] * MAX_WAITING
