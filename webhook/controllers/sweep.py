"""The base of the leader's loops: when they work, that only the leader works, and that a fault ends no loop.

1. A sweep looks at everything that the loop looks after, level-triggered: what one leaves out, the next one finds.
   On a replica that does not lead it does nothing, and forgets what it knew in its term.
2. What a sweep raises is logged and counted, and the next one follows after a growing pause. Faults with single pods or
   gangs are contained by the loops themselves.
3. It rests for its period. After much work it rests longer, because reviews need the event loop.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import ClassVar, Final, NoReturn

from webhook.controllers.placement.work_clock import WorkClock
from webhook.internal_errors import Where, internal_error
from webhook.kube.backoff import Backoff

_LONGEST_PAUSE_SECONDS: Final = 30.0


class Sweep(ABC):
    """A loop. `_work` measures the current sweep."""

    period: ClassVar[float] = 1.0
    """Seconds between two sweeps."""
    leader_only: ClassVar[bool] = True
    """Whether only the leader sweeps. Else every replica does, and the loop asks `_is_leader` before it writes."""
    rest_per_work: ClassVar[float] = 0.0
    """Seconds of rest for each second of work, where that is longer than the period."""
    longest_rest: ClassVar[float] = inf

    def __init__(self, is_leader: Callable[[], bool]) -> None:
        """is_leader: whether we lead, and may write."""
        self._is_leader = is_leader
        self._work = WorkClock()

    async def run(self) -> NoReturn:
        """Sweep until cancelled."""
        backoff = Backoff(base=self.period, cap=_LONGEST_PAUSE_SECONDS)
        try:
            while True:
                self._work = WorkClock()
                try:
                    await self.sweep(monotonic())
                except Exception as error:  # noqa: BLE001 # a fault ends no loop
                    internal_error(Where.TASK, error, task=type(self).__name__)
                    await asyncio.sleep(backoff.next(self.period))
                else:
                    backoff.reset()
                    await self._rest()
        finally:
            self._end()

    async def sweep(self, now: float) -> None:
        """Sweep once. now: seconds of `time.monotonic`."""
        if not self.leader_only or self._is_leader():
            await self._sweep(now)
        else:
            self._forget()

    @abstractmethod
    async def _sweep(self, now: float) -> None:
        """The work."""

    def _forget(self) -> None:  # noqa: B027 # many remember nothing
        """Forget what was known in the term: we do not lead."""

    def _end(self) -> None:  # noqa: B027 # few have tasks of their own
        """Cancel what runs in the background: the process ends."""

    async def _rest(self) -> None:
        """Wait until the next sweep."""
        rest = min(self._work.seconds() * self.rest_per_work, self.longest_rest)
        await asyncio.sleep(max(self.period, rest))
