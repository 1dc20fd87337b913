"""Reviews that wait for another binding: so many at a time, and of the namespace that has most of them the oldest goes.

Each costs some kilobytes and a look at its node every few milliseconds. A client that sends reviews of
many pods pays with its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# As many bindings as a scheduler has under way at a time on one node, and some nodes.
_MOST: Final = 128


class Waiting:
    """One review that waits."""

    __slots__ = ("displaced",)

    def __init__(self) -> None:
        self.displaced = False
        """Whether it is to be answered at once."""


class WaitingReviews:
    """Those that wait now, by namespace and pod."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._of: dict[str, dict[tuple[str, Waiting], None]] = {}
        self._total = 0

    @contextmanager
    def one(self, namespace: str, pod: str) -> Iterator[Waiting]:
        """One more. An earlier one of the same pod goes: a scheduler that asks again has given that one up."""
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
