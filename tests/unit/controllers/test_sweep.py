"""The base of the loops: who works, what a fault does, how long a loop rests, and what counts as work."""

import asyncio
from asyncio import sleep
from functools import partial
from time import monotonic
from typing import Any

import pytest

from webhook.controllers import sweep
from webhook.controllers.sweep import Sweep, WorkClock, call_after, rest_after
from webhook.internal_errors import Where, internal_error_counts


class Counting(Sweep):
    """A loop that notes what is asked of it."""

    def __init__(self, *, leads: bool = True) -> None:
        super().__init__(lambda: leads)
        self.did: list[str] = []

    async def _sweep(self, now: float) -> None:
        assert now > 0
        self.did.append("sweep")
        if self.did == ["sweep"]:
            msg = "the first one fails"
            raise RuntimeError(msg)

    def _forget(self) -> None:
        self.did.append("forget")

    def _end(self) -> None:
        self.did.append("end")


class OnEveryReplica(Counting):
    leader_only = False


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each rest; the third one never ends."""
    found: list[float] = []

    async def rest(seconds: float) -> None:
        found.append(seconds)
        await sleep(3600 if len(found) == 3 else 0)

    monkeypatch.setattr(asyncio, "sleep", rest)
    return found


async def three_sweeps(loop: Counting, rests: list[float]) -> list[str]:
    running = asyncio.create_task(loop.run())
    async with asyncio.timeout(20):
        while len(rests) < 3:  # noqa: ASYNC110 # a list that grows
            await sleep(0)
    running.cancel()
    await asyncio.wait({running})
    return loop.did


async def test_a_sweep_that_fails_is_counted_and_the_next_one_follows_after_a_longer_pause(rests: list[float]) -> None:
    before = internal_error_counts().get(Where.TASK, 0)
    assert await three_sweeps(Counting(), rests) == ["sweep", "sweep", "sweep", "end"]
    assert internal_error_counts()[Where.TASK] == before + 1
    assert 1.0 <= rests[0] <= 2.0
    assert rests[1:] == [1.0, 1.0]


async def test_who_does_not_lead_forgets_and_does_nothing(rests: list[float]) -> None:
    assert await three_sweeps(Counting(leads=False), rests) == ["forget", "forget", "forget", "end"]


async def test_a_loop_of_every_replica_sweeps_whoever_leads(rests: list[float]) -> None:
    assert await three_sweeps(OnEveryReplica(leads=False), rests) == ["sweep", "sweep", "sweep", "end"]


async def test_after_much_work_a_loop_rests_longer_than_its_period_and_not_without_limit(
    rests: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Busy(Counting):
        rest_per_work, longest_rest = 20.0, 5.0

        async def _sweep(self, now: float) -> None:
            del now

    worked = iter([0.01, 0.1, 10.0])
    clock: Any = type("Clock", (), {"seconds": lambda _: next(worked)})
    monkeypatch.setattr(sweep, "WorkClock", clock)
    await three_sweeps(Busy(), rests)
    assert rests == [1.0, 2.0, 5.0]


uvloop = pytest.importorskip("uvloop")


def test_no_timer_fires_early() -> None:
    late: list[float] = []

    def fire(due: float, fired: asyncio.Event) -> None:
        late.append(monotonic() - due)
        fired.set()

    async def run() -> None:
        for number in range(200):
            seconds = 0.001 + number * 0.00037
            due, fired = monotonic() + seconds, asyncio.Event()
            call_after(seconds, partial(fire, due, fired))
            if number % 4 == 0:
                await fired.wait()
        await fired.wait()
        await asyncio.sleep(0.1)

    uvloop.run(run())
    assert len(late) == 200
    assert min(late) >= 0


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
