"""How long to wait before the next attempt: exponential backoff with full jitter.

The n-th wait is uniform between 0 and min(cap, base * 2**n), so that many clients that failed together do not retry
together. Source: the "full jitter" of the AWS Architecture Blog's "Exponential Backoff And Jitter".
"""

import random
from dataclasses import dataclass
from typing import Final

# 0.5 s, 1, 2 … 32 give six attempts within about half a minute; an API server restarts in 5 to 20 s.
DEFAULT_BASE: Final = 0.5
DEFAULT_CAP: Final = 30.0

# One for all: each of them would read the kernel's random numbers first, and there is one for each write of a pod.
_RNG: Final = random.Random()  # noqa: S311 # spreads load, not security-relevant


@dataclass(slots=True)
class Backoff:
    """The waits of one client, in seconds."""

    base: float = DEFAULT_BASE
    cap: float = DEFAULT_CAP
    rng: random.Random = _RNG
    attempts: int = 0

    def next(self, at_least: float = 0.0) -> float:
        """The next wait; `at_least` is what the server asked for (Retry-After), and the jitter is added to it."""
        # 2.0**64 exceeds any cap and is still a float; without the limit the power would overflow after days of outage.
        ceiling = min(self.cap, self.base * 2.0 ** min(self.attempts, 64))
        self.attempts += 1
        return at_least + self.rng.uniform(0.0, ceiling)

    def reset(self) -> None:
        """Restart from the shortest wait after a success."""
        self.attempts = 0
