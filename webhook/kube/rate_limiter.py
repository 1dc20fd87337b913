"""A bound on how fast we call the API server, whatever goes wrong in us.

The server protects itself (priority and fairness); this keeps a fault of ours from being everybody's.
Source: the generic cell rate algorithm (ITU-T I.371), which needs one number where a token bucket needs two.
"""

import asyncio
from collections.abc import Callable
from time import monotonic


class RateLimiter:
    """At most `rate` calls a second on average, `burst` of them at once.

    The defaults let a start with 50,000 pods (100 pages of 500) run unhindered and bound a loop gone wild to what a few
    controllers of kube-controller-manager (20 to 30 calls a second each) do.
    """

    def __init__(self, rate: float = 50.0, burst: int = 150, clock: Callable[[], float] = monotonic) -> None:
        self._interval = 1.0 / rate
        self._tolerance = burst * self._interval
        self._clock = clock
        self._due = clock()

    async def turn(self) -> None:
        """Return when the next call may go out."""
        now = self._clock()
        self._due = max(self._due, now) + self._interval
        wait = self._due - self._tolerance - now
        if wait > 0:
            await asyncio.sleep(wait)
