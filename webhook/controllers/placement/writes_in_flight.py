"""The leader's writes in flight: a task for each pod, so many of them sent at a time.

A write never ends anything but itself. What it raises is counted and logged, and its pod has its turn again later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from webhook.internal_errors import Where, internal_error

Write = Callable[[], Awaitable[bool]]
"""Gives whether the pod is done with; if not, it is tried again later."""

# Writes that wait for their turn while so many are sent: enough for the next ones to be ready whenever one is done.
_AHEAD: Final = 16


class WritesInFlight:
    """Writes by pod (namespace/name). `ended` is told each pod that is done: its key, its uid, whether it was written.

    `failed` is told instead of a pod whose write met with a fault of ours, with the sentence that says so.
    """

    def __init__(
        self,
        at_a_time: int,
        ended: Callable[[str, str, bool], None],
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
        """Whether there are enough for the moment; when one ends, others may be started."""
        return len(self._tasks) >= self._most

    def start(self, key: str, uid: str, write: Write) -> None:
        """Have the pod written; of one pod there is one write at a time."""
        self._tasks[key] = asyncio.create_task(self._run(key, uid, write), name=f"write of {key}")

    async def settle(self) -> None:
        """Wait for all of them."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def cancel(self) -> None:
        """Give all of them up: the process ends."""
        for task in self._tasks.values():
            task.cancel()

    async def _run(self, key: str, uid: str, write: Write) -> None:
        fault, written = "", False
        try:
            async with self._slots:
                written = await write()
        except Exception as error:  # noqa: BLE001 # a fault with one pod must not end the leader
            fault = internal_error(Where.WRITE, error, pod=key)
        finally:
            del self._tasks[key]
        if fault:
            self._failed(key, uid, fault)
        else:
            self._ended(key, uid, written)
