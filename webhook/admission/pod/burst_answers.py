"""Answers in a burst of equal pods: while many are created, many are bound, and so the cluster changes all the time.

An answer that only gates a pod decides nothing that depends on what is free now: its text says how many nodes fit, and
is replaced when the pod gets its node. So in a burst an equal pod gets the same answer for a moment, whatever has
changed meanwhile: a cache that is filled by watches may be as far behind.

1. The answers to equal pods are counted for as long as one is given again.
2. If enough pods came in that time, the next answer that is found is given to all equal pods of its moment.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from webhook.admission.response import Response

# Watches are usually 10 to 100 ms behind the API server, and twice that when it is busy.
MOMENT_SECONDS: Final = 0.2
# In a moment, by a kube-controller-manager with its default --kube-api-qps of 20.
_MANY: Final = 4
# As many as there are recent decisions.
_MOST: Final = 128


@dataclass(slots=True)
class _Given:
    """An answer, when it was found (in seconds of `time.monotonic`), and how many asked for it since."""

    answer: Response
    at: float
    in_burst: bool
    asked: int = 1


class BurstAnswers:
    """The last answer for each kind of pod. clock: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._given: dict[Hashable, _Given] = {}

    def get(self, key: Hashable) -> Response | None:
        """The answer to an equal pod of this burst; None if it must be found."""
        known = self._given.get(key)
        if known is None:
            return None
        known.asked += 1
        return known.answer if known.in_burst and self._clock() - known.at < MOMENT_SECONDS else None

    def put(self, key: Hashable, answer: Response) -> None:
        """An answer that was found now, and only gates its pod."""
        now, before = self._clock(), self._given.get(key)
        if before is not None and now - before.at < MOMENT_SECONDS:
            return  # pods are counted for a whole moment
        in_burst = before is not None and now - before.at < 2 * MOMENT_SECONDS and before.asked >= _MANY
        if before is None and len(self._given) >= _MOST:
            self._given.clear()
        self._given[key] = _Given(answer, now, in_burst)
