"""Reviews that wait for other bindings. If too many wait, the oldest of the namespace with the most is answered.

A review waits for pods by their names, and the first of them that is bound or deleted wakes it, in the order in which
the reviews came. Each waiting review costs some kilobytes. A client that sends reviews of many pods displaces only its
own.
"""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

# As many as an API server handles at a time (--max-mutating-requests-inflight is 200, and 600 with all priority
# levels): a scheduler sends the bindings of a burst without waiting for answers.
_MOST: Final = 600


class Waiting:
    """A waiting review."""

    __slots__ = ("_woken", "after", "displaced")

    def __init__(self, after: Collection[str]) -> None:
        self.after = after
        """The pods (namespace/name) that it waits for."""
        self.displaced = False
        """Whether it must be answered at once."""
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Let it check again."""
        self._woken.set()

    async def woken(self, seconds: float) -> None:
        """Return when it is woken, or after this time."""
        timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
            self._woken.clear()


class WaitingReviews:
    """The waiting reviews, by namespace and pod, and by the pods that they wait for."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._of: dict[str, dict[tuple[str, Waiting], None]] = {}
        self._after: dict[str, dict[Waiting, None]] = {}
        self._total = 0

    @contextmanager
    def one(self, namespace: str, pod: str, after: Collection[str] = ()) -> Iterator[Waiting]:
        """Add a review. It displaces an earlier one of the same pod, which the scheduler has given up."""
        waiting = Waiting(after)
        mine = self._of.setdefault(namespace, {})
        for key in [key for key in mine if key[0] == pod]:
            self._displace(namespace, key)
        mine = self._of.setdefault(namespace, {})
        mine[pod, waiting] = None
        for other in after:
            self._after.setdefault(other, {})[waiting] = None
        self._total += 1
        if self._total > self._most:
            most = max(self._of, key=lambda each: len(self._of[each]))
            self._displace(most, next(iter(self._of[most])))
        try:
            yield waiting
        finally:
            self._remove(namespace, (pod, waiting))

    def bound_or_gone(self, pod: str, _uid: str) -> None:
        """Wake the reviews that wait for a pod of this name. One that is woken too early finds that it still waits."""
        for waiting in self._after.get(pod, ()):
            waiting.wake()

    def _displace(self, namespace: str, key: tuple[str, Waiting]) -> None:
        key[1].displaced = True
        key[1].wake()
        self._remove(namespace, key)

    def _remove(self, namespace: str, key: tuple[str, Waiting]) -> None:
        mine = self._of.get(namespace, {})
        if key not in mine:
            return
        del mine[key]
        self._total -= 1
        if not mine:
            del self._of[namespace]
        for other in key[1].after:
            del self._after[other][key[1]]
            if not self._after[other]:
                del self._after[other]
