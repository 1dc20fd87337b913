"""The pace of our calls to the API server: their rate, the waits before retries, turns of namespaces and of tasks.

What is limited:
- `RateLimiter`: our calls in total, whatever fault we may have.
- `Backoff`: how soon a failed call is tried again.
- `FairQueue`: what a namespace with many items can delay.
- `Turns`: how long a list or a burst of events keeps other tasks waiting.
"""

import asyncio
import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import monotonic
from typing import Final, Generic, TypeVar

# A review waits at most this long for each informer. With shorter turns an informer falls behind while the leader is at
# work: a decision at 50,000 nodes takes as long. The cost of an object differs tenfold, so objects are not counted.
TURN_SECONDS: Final = 0.005
# 0.5 s, 1, 2 … 32 give six attempts within about half a minute; an API server restarts in 5 to 20 s.
DEFAULT_BASE: Final = 0.5
DEFAULT_CAP: Final = 30.0


class Turns:
    """The turns of one task, for which other tasks run between the objects of a long list or a burst of events.

    The first one begins now.
    """

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


Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class FairQueue(Generic[Key, Item]):
    """Items to write, by namespace in turn: a namespace with many items delays only its own.

    1. `put` adds an item, or replaces the one with the same key at its position.
    2. `pop` returns the oldest item of the namespace that was served longest ago.
    3. Beyond `most` items (None: no limit) the oldest of the namespace with the most items is dropped.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most: Final = most
        self._size = 0
        self._namespaces: dict[str, dict[Key, Item]] = {}
        """Namespaces in the order of their turn, none empty; the items of each, oldest first."""

    def __len__(self) -> int:
        return self._size

    def get(self, namespace: str, key: Key) -> Item | None:
        """The item with this key."""
        return self._namespaces.get(namespace, {}).get(key)

    def put(self, namespace: str, key: Key, item: Item) -> None:
        """Add an item."""
        own = self._namespaces.setdefault(namespace, {})
        self._size += key not in own
        own[key] = item
        if self._most is not None and self._size > self._most:
            largest = max(self._namespaces, key=lambda name: len(self._namespaces[name]))
            self._take(largest, next(iter(self._namespaces[largest])))

    def discard(self, namespace: str, key: Key) -> None:
        """Remove an item if it is queued."""
        if key in self._namespaces.get(namespace, {}):
            self._take(namespace, key)

    def pop(self) -> tuple[Key, Item]:
        """Remove and return the next item. Raises StopIteration if there is none."""
        namespace, own = next(iter(self._namespaces.items()))
        key = next(iter(own))
        item = self._take(namespace, key)
        if own:
            self._namespaces[namespace] = self._namespaces.pop(namespace)  # moved to the end
        return key, item

    def _take(self, namespace: str, key: Key) -> Item:
        own = self._namespaces[namespace]
        item = own.pop(key)
        self._size -= 1
        if not own:
            del self._namespaces[namespace]
        return item


class RateLimiter:
    """At most `rate` calls a second on average, `burst` of them at once.

    The server protects itself (priority and fairness); this limit keeps our faults from affecting other clients. The
    defaults do not delay a start with 50,000 pods (100 pages of 500). They limit a runaway loop to the rate of a few
    controllers of kube-controller-manager (20 to 30 calls a second each).
    Source: the generic cell rate algorithm (ITU-T I.371), which needs one number where a token bucket needs two.
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


# One for all: each of them would read the kernel's random numbers first, and there is one for each write of a pod.
_RNG: Final = random.Random()  # noqa: S311 # spreads load, not security-relevant


@dataclass(slots=True)
class Backoff:
    """The waits of one client, in seconds: exponential backoff with full jitter.

    The n-th wait is uniform between 0 and min(cap, base * 2**n), so that many clients that failed together do not retry
    together. Source: the "full jitter" of the AWS Architecture Blog's "Exponential Backoff And Jitter".
    """

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
