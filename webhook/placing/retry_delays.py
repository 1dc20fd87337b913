"""Delays retries after a failure, longer each time, so that the faults of one unit cost the others little.

A unit is a pod by its uid (a pod that is recreated under the same name starts afresh), or a gang. It is forgotten when
it no longer exists.
"""

from collections.abc import Callable, Hashable
from collections.abc import Set as AbstractSet
from typing import Final

# A fault of ours is likely to repeat: delays of 1 s, 2, 4 … 60. A hundred faulty pods then cause two attempts a second.
_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 60.0


class RetryDelays:
    """The delays; `wake_in` is called with the seconds after which a unit may be retried. clock: seconds, monotonic."""

    def __init__(self, wake_in: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._wake_in = wake_in
        self._clock = clock
        self._not_before: dict[Hashable, float] = {}
        self._failures: dict[Hashable, int] = {}

    def put_off(self, unit: Hashable, seconds: float) -> None:
        """Delay the next attempt by this time."""
        self._not_before[unit] = self._clock() + seconds
        self._wake_in(seconds)

    def failed(self, unit: Hashable) -> None:
        """Delay the unit after an internal error, twice as long as the last time."""
        failures = self._failures.get(unit, 0)
        self._failures[unit] = failures + 1
        # 2**6 exceeds the longest delay; without the bound the power would grow with every failure.
        self.put_off(unit, min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(failures, 6)))

    def succeeded(self, unit: Hashable) -> None:
        """Forget past failures: the next delay is the shortest again."""
        self._failures.pop(unit, None)

    def is_put_off(self, unit: Hashable) -> bool:
        """Whether the unit is still delayed."""
        return self._not_before.get(unit, self._clock()) > self._clock()

    def keep(self, units: AbstractSet[Hashable]) -> None:
        """Forget all units but these, which still exist."""
        if self._not_before or self._failures:
            self._not_before = {unit: at for unit, at in self._not_before.items() if unit in units}
            self._failures = {unit: count for unit, count in self._failures.items() if unit in units}
