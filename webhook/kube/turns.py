"""Lets other tasks run between the objects of a long list or a burst of events."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

# A review waits at most this long for each informer. With shorter turns an informer falls behind while the leader is at
# work: a decision at 50,000 nodes takes as long. The cost of an object differs tenfold, so objects are not counted.
TURN_SECONDS: Final = 0.005


class Turns:
    """The turns of one task; the first one begins now."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until = clock() + TURN_SECONDS

    def is_over(self) -> bool:
        """Whether other tasks should run now."""
        return self._clock() >= self._until

    async def next(self) -> None:
        """Let the other tasks run once, and begin another turn."""
        await asyncio.sleep(0)
        self._until = self._clock() + TURN_SECONDS
