"""The base of the leader's loops: when they work, that only the leader works, and that a fault ends no loop.

1. A sweep looks at everything that the loop looks after, level-triggered: what one leaves out, the next one finds.
   On a replica that does not lead it does nothing, and forgets what it knew in its term.
2. What a sweep raises is logged and counted, and the next one follows after a growing pause. Faults with single pods or
   gangs are contained by the loops themselves.
3. It rests for its period. After much work it rests longer, because reviews need the event loop.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator
from math import inf
from time import monotonic
from typing import ClassVar, Final, NoReturn, TypeVar

from webhook.internal_errors import Where, internal_error
from webhook.kube.pacing import Backoff

# uvloop counts whole milliseconds from the start of a turn of the event loop: a timer may fire more than one early.
# What should be due then would be found not to be due, and nothing would wake its loop again.
_EARLY_SECONDS: Final = 0.005


def call_after(seconds: float, act: Callable[[], None]) -> None:
    """Call `act` once at least so many seconds have passed, as seen by `time.monotonic`: never before its time."""
    asyncio.get_running_loop().call_later(seconds + _EARLY_SECONDS, act)


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
    """The work of one cycle, without the time in which it waited for answers or let other tasks run."""

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
