"""Timers on the event loop of the service."""

import asyncio
from functools import partial
from time import monotonic

import pytest

from webhook.controllers.sweep import call_after

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
