"""When what failed has its turn again: later each time, so that a fault of one unit costs the others little.

A unit is a pod by its uid (one that is recreated under the same name starts afresh), or a gang by its group. It is
forgotten when it is no longer there.
"""

from collections.abc import Callable, Hashable
from collections.abc import Set as AbstractSet
from time import monotonic
from typing import Final

# A fault of ours most likely repeats itself: 1 s, 2, 4 … 60. A hundred faulty pods then are two attempts a second.
_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 60.0


class RetryDelays:
    """The delays; `wake_in` is called with the seconds after which a unit may be tried again."""

    def __init__(self, wake_in: Callable[[float], None], clock: Callable[[], float] = monotonic) -> None:
        self._wake_in = wake_in
        self._clock = clock
        self._not_before: dict[Hashable, float] = {}
        self._failures: dict[Hashable, int] = {}

    def put_off(self, unit: Hashable, seconds: float) -> None:
        """Try it again after so long."""
        self._not_before[unit] = self._clock() + seconds
        self._wake_in(seconds)

    def failed(self, unit: Hashable) -> None:
        """It met with a fault of ours: try it again after twice as long as the last time."""
        failures = self._failures.get(unit, 0)
        self._failures[unit] = failures + 1
        # 2**6 is beyond the longest; without the bound the power would grow with every failure.
        self.put_off(unit, min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(failures, 6)))

    def succeeded(self, unit: Hashable) -> None:
        """The next fault is a first one again."""
        self._failures.pop(unit, None)

    def is_put_off(self, unit: Hashable) -> bool:
        """Whether it is not its turn yet."""
        return self._not_before.get(unit, self._clock()) > self._clock()

    def keep(self, units: AbstractSet[Hashable]) -> None:
        """Only these are still there."""
        if self._not_before or self._failures:
            self._not_before = {unit: at for unit, at in self._not_before.items() if unit in units}
            self._failures = {unit: count for unit, count in self._failures.items() if unit in units}
