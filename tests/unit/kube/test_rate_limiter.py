import asyncio

import pytest

from webhook.kube.pacing import RateLimiter


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
