"""Reviews that wait for another binding. If too many wait, the oldest of the namespace with the most is answered.

Each waiting review costs some kilobytes and a check of its node every few milliseconds. A client that sends reviews of
many pods displaces only its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# As many bindings as a scheduler has in flight to one node at a time, for several nodes.
_MOST: Final = 128


class Waiting:
    """A waiting review."""

    __slots__ = ("displaced",)

    def __init__(self) -> None:
        self.displaced = False
        """Whether it must be answered at once."""


class WaitingReviews:
    """The waiting reviews, by namespace and pod."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._of: dict[str, dict[tuple[str, Waiting], None]] = {}
        self._total = 0

    @contextmanager
    def one(self, namespace: str, pod: str) -> Iterator[Waiting]:
        """Add a review. It displaces an earlier one of the same pod, which the scheduler has given up."""
        waiting = Waiting()
        mine = self._of.setdefault(namespace, {})
        for key in [key for key in mine if key[0] == pod]:
            self._displace(namespace, key)
        mine = self._of.setdefault(namespace, {})
        mine[pod, waiting] = None
        self._total += 1
        if self._total > self._most:
            most = max(self._of, key=lambda each: len(self._of[each]))
            self._displace(most, next(iter(self._of[most])))
        try:
            yield waiting
        finally:
            self._remove(namespace, (pod, waiting))

    def _displace(self, namespace: str, key: tuple[str, Waiting]) -> None:
        key[1].displaced = True
        self._remove(namespace, key)

    def _remove(self, namespace: str, key: tuple[str, Waiting]) -> None:
        mine = self._of.get(namespace, {})
        if key in mine:
            del mine[key]
            self._total -= 1
            if not mine:
                del self._of[namespace]
