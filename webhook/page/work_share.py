"""Limits the page's share of the event loop, which it has in common with the reviews.

In a replica, a piece of work that took t seconds is followed by 9 t without any, at most a second: pages get a tenth
of the time, however many are open. A page that has to wait is late; a review is not. In a process of its own, the page
does not rest.
"""

import asyncio
from asyncio import sleep as rest
from collections.abc import Callable
from time import monotonic
from typing import Final, TypeVar

Result = TypeVar("Result")

REST_PER_WORK: Final = 9.0
"""Of a replica."""
_LONGEST_REST: Final = 1.0
"""Seconds. A change must be seen within 2 s, and no piece of work takes longer than 0.1 s once the cluster is read."""
MAX_WAITING: Final = 64
"""Requests that wait for their turn: two for each stream (see `change_stream`)."""


class BusyError(Exception):
    """Too many requests wait already."""


class WorkShare:
    """Runs pieces of work one at a time, with rests."""

    def __init__(self, rest_per_work: float, clock: Callable[[], float] = monotonic) -> None:
        self._rest_per_work = rest_per_work
        self._clock = clock
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._free_at = clock()

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of the work, when its turn has come. Raises BusyError."""
        if self._waiting >= MAX_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            async with self._turn:
                await rest(max(0.0, self._free_at - self._clock()))
                began = self._clock()
                try:
                    return work()
                finally:
                    ended = self._clock()
                    self._free_at = ended + min(_LONGEST_REST, (ended - began) * self._rest_per_work)
        finally:
            self._waiting -= 1
