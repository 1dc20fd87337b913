"""How long a round has worked, not counting what it waited for: answers, and the turns of others."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

Answer = TypeVar("Answer")


class Work:
    """One round's."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._worked = 0.0
        self._since = clock()

    def seconds(self) -> float:
        """The seconds worked so far."""
        return self._worked + self._clock() - self._since

    async def pause(self) -> None:
        """Let others have their turn, once: however long they take, it is no work of ours."""
        await self.wait_for(asyncio.sleep(0))

    async def wait_for(self, answer: Awaitable[Answer]) -> Answer:
        """The answer; however long it takes, it is no work of ours."""
        self._worked = self.seconds()
        try:
            return await answer
        finally:
            self._since = self._clock()
