"""Measures how long a loop has worked, excluding the time it waited for answers or let other tasks run."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from time import monotonic
from typing import Final, TypeVar

Answer = TypeVar("Answer")

# Seconds of rest per second of work that placed nothing. Reviews need the event loop: while every pod waits, cycles
# take at most a fifth of its time.
_REST_PER_WORK: Final = 4.0
# The work of a cycle is bounded, but for that of one unit, and what that costs must not hold up the others much longer.
_LONGEST_REST: Final = 2.0
# Of several short steps. After a pause the next decision has to read what other tasks have changed, which costs as much
# as the decision. A review takes a few milliseconds anyway.
_TURN_SECONDS: Final = 0.002


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

    async def pause_after_a_turn(self) -> None:
        """The same, unless the work since the last pause was short."""
        if self._clock() - self._since >= _TURN_SECONDS:
            await self.pause()

    async def result_of(self, steps: Generator[None, None, Answer]) -> Answer:
        """The result of long work in steps; other tasks run in between."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: Answer = end.value
                return result
            await self.pause_after_a_turn()

    async def wait_for(self, answer: Awaitable[Answer]) -> Answer:
        """Return the answer; the time until it comes does not count."""
        self._worked = self.seconds()
        try:
            return await answer
        finally:
            self._since = self._clock()


def rest_after(in_vain: float) -> float:
    """Seconds of rest. in_vain: seconds of work that led to nothing."""
    return min(in_vain * _REST_PER_WORK, _LONGEST_REST)
