"""Measures how long a loop has worked, excluding the time it waited for answers or let other tasks run."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

Answer = TypeVar("Answer")


class WorkClock:
    """The work of one cycle."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._worked = 0.0
        self._since = clock()

    def seconds(self) -> float:
        """Seconds of work so far."""
        return self._worked + self._clock() - self._since

    async def pause(self) -> None:
        """Let other tasks run once; their time does not count."""
        await self.wait_for(asyncio.sleep(0))

    async def wait_for(self, answer: Awaitable[Answer]) -> Answer:
        """Return the answer; the time until it comes does not count."""
        self._worked = self.seconds()
        try:
            return await answer
        finally:
            self._since = self._clock()
