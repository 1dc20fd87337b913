"""Rate limit for log lines that any caller can cause, so that none can fill the log.

if (left_out := limit.take()) is not None:
    log.warning("review.refused", ..., left_out=left_out)
"""

from collections.abc import Callable
from time import monotonic


class LogLimit:
    """An average number of lines a second and a burst; lines beyond that are dropped and counted."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._free = float(burst)
        self._at = clock()
        self._left_out = 0

    def take(self) -> int | None:
        """The number of lines dropped since the last one; None if this line must be dropped, too."""
        now = self._clock()
        self._free = min(self._burst, self._free + (now - self._at) * self._per_second)
        self._at = now
        if self._free < 1:
            self._left_out += 1
            return None
        self._free -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out
