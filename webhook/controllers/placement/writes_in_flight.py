"""The leader's writes in flight: one per pod, with a limit on how many are sent at a time.

1. A write is queued under the node of its pod. Nodes have turns, and the order on each node stays.
   A scheduler binds pods about in the order in which they are ungated, and bindings to one node wait for each other
   (see `admission.binding.guard`). A gang is decided node by node. In that order, twelve bindings to one node in a row
   would wait; so other nodes' bindings come between them.
2. As soon as a slot is free, the next write is sent in a task of its own.
3. A failed write affects only itself. Its exception is counted and logged, and its pod is retried later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from webhook.internal_errors import Where, internal_error
from webhook.kube.fair_queue import FairQueue

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
        self._at_a_time = at_a_time
        self._most = at_a_time * _AHEAD
        self._ended = ended
        self._failed = failed
        self._queue = FairQueue[str, tuple[str, Write]]()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._keys: set[str] = set()
        """Of all writes, queued or sent."""

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    @property
    def full(self) -> bool:
        """Whether no more writes should be started until one ends."""
        return len(self._keys) >= self._most

    def start(self, key: str, uid: str, write: Write, node: str = "") -> None:
        """Write the pod in the background; start no second write of the same pod."""
        self._keys.add(key)
        self._queue.put(node, key, (uid, write))
        # Not at once: the writes that are started next belong in the same order.
        asyncio.get_running_loop().call_soon(self._send)

    async def settle(self) -> None:
        """Wait for all writes."""
        while self._keys:
            self._send()
            await asyncio.wait(self._tasks.values())

    def cancel(self) -> None:
        """Cancel all writes when the process ends."""
        while self._queue:
            self._queue.pop()
        self._keys.clear()
        for task in self._tasks.values():
            task.cancel()

    def _send(self) -> None:
        """Send queued writes while slots are free."""
        while self._queue and len(self._tasks) < self._at_a_time:
            key, (uid, write) = self._queue.pop()
            self._tasks[key] = asyncio.create_task(self._run(key, uid, write), name=f"write of {key}")

    async def _run(self, key: str, uid: str, write: Write) -> None:
        fault, written = "", False
        try:
            written = await write()
        except Exception as error:  # noqa: BLE001 # a fault with one pod must not stop the leader
            fault = internal_error(Where.WRITE, error, pod=key)
        finally:
            del self._tasks[key]
            self._keys.discard(key)
            self._send()
        if fault:
            self._failed(key, uid, fault)
        else:
            self._ended(uid, written)
