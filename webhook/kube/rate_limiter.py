"""A limit on the rate of our calls to the API server, whatever fault we may have.

The server protects itself (priority and fairness); this limit keeps our faults from affecting other clients.
Source: the generic cell rate algorithm (ITU-T I.371), which needs one number where a token bucket needs two.
"""

import asyncio
from collections.abc import Callable
from time import monotonic


class RateLimiter:
    """At most `rate` calls a second on average, `burst` of them at once.

    The defaults do not delay a start with 50,000 pods (100 pages of 500). They limit a runaway loop to the rate of a
    few controllers of kube-controller-manager (20 to 30 calls a second each).
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
