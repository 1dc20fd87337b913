"""The leader's writes in flight: one task per pod, with a limit on how many are sent at a time.

A failed write affects only itself. Its exception is counted and logged, and its pod is retried later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from webhook.internal_errors import Where, internal_error

Write = Callable[[], Awaitable[bool]]
"""Returns whether the pod is done; if not, it is retried later."""

# Queued writes per slot: enough for the next one to be ready whenever one is done.
_AHEAD: Final = 16


class WritesInFlight:
    """Writes by pod (namespace/name). `ended` is called after each write: uid, whether it was written.

    If a write raised an exception, `failed` is called instead: key, uid, the error in a sentence.
    """

    def __init__(
        self,
        at_a_time: int,
        ended: Callable[[str, bool], None],
        failed: Callable[[str, str, str], None],
    ) -> None:
        self._slots = asyncio.Semaphore(at_a_time)
        self._most = at_a_time * _AHEAD
        self._ended = ended
        self._failed = failed
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._tasks

    @property
    def full(self) -> bool:
        """Whether no more writes should be started until one ends."""
        return len(self._tasks) >= self._most

    def start(self, key: str, uid: str, write: Write) -> None:
        """Write the pod in the background; start no second write of the same pod."""
        self._tasks[key] = asyncio.create_task(self._run(key, uid, write), name=f"write of {key}")

    async def settle(self) -> None:
        """Wait for all writes."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def cancel(self) -> None:
        """Cancel all writes when the process ends."""
        for task in self._tasks.values():
            task.cancel()

    async def _run(self, key: str, uid: str, write: Write) -> None:
        fault, written = "", False
        try:
            async with self._slots:
                written = await write()
        except Exception as error:  # noqa: BLE001 # a fault with one pod must not stop the leader
            fault = internal_error(Where.WRITE, error, pod=key)
        finally:
            del self._tasks[key]
        if fault:
            self._failed(key, uid, fault)
        else:
            self._ended(uid, written)
