"""How long calls wait after failures and for their rate, and that other tasks run when a turn is over."""

import asyncio
import random

import pytest

from webhook.kube.pacing import TURN_SECONDS, Backoff, RateLimiter, Turns


def test_waits_are_uniform_below_a_ceiling_that_doubles_up_to_the_cap() -> None:
    for attempt, ceiling in enumerate([1.0, 2.0, 4.0, 8.0, 10.0, 10.0]):
        waits = []
        for seed in range(500):
            backoff = Backoff(base=1.0, cap=10.0, rng=random.Random(seed))  # noqa: S311 - no secret
            waits.append([backoff.next() for _ in range(attempt + 1)][-1])
        assert 0.0 <= min(waits) < 0.02 * ceiling
        assert 0.98 * ceiling < max(waits) <= ceiling


def test_what_the_server_asks_for_comes_before_the_jitter() -> None:
    backoff = Backoff(base=1.0, cap=1.0)
    assert all(30.0 <= backoff.next(at_least=30.0) <= 31.0 for _ in range(100))


def test_after_a_success_the_shortest_wait_comes_again_and_days_of_failures_do_not_overflow() -> None:
    backoff = Backoff(base=1.0, cap=1000.0)
    for _ in range(5000):
        backoff.next()
    backoff.reset()
    assert backoff.next() <= 1.0


async def test_a_burst_goes_at_once_and_what_follows_at_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    pace = RateLimiter(rate=10.0, burst=5, clock=lambda: now)
    for _ in range(5):
        await pace.turn()
    assert waits == []
    for _ in range(10):
        await pace.turn()
    assert now == pytest.approx(101.0)  # ten calls beyond the burst, at ten a second
    now += 60.0
    waits.clear()
    for _ in range(6):
        await pace.turn()
    assert len(waits) == 1  # however long it was idle, no more than the burst goes at once


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
