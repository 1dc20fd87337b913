"""The leader's writes in flight: one per pod, with a limit on how many are sent at a time.

1. A write is queued under the node of its pod. Nodes have turns, and the order on each node stays. A pod may have to
   wait until others are bound to its node (see `ungate_order`).
2. As soon as a slot is free, the next write is sent in a task of its own.
3. A failed write affects only itself. Its exception is counted and logged, and its pod is retried later.
4. When the queue is full, its caller waits until a quarter of it is free: what it starts then is worth a cycle.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from collections.abc import Set as AbstractSet
from time import monotonic
from typing import Final

from webhook.controllers.placement.binding_pace import BindingPace
from webhook.controllers.placement.ungate_order import UngateOrder
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
        self._at_a_time = at_a_time
        self._most = at_a_time * _AHEAD
        self._enough_room = self._most * 3 // 4
        self._ended = ended
        self._failed = failed
        self._queue = UngateOrder[tuple[str, Write]]()  # by uid: (namespace/name, write)
        self._pace = BindingPace()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._keys: set[str] = set()
        """Of all writes, queued or sent."""
        self._room = asyncio.Event()

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    @property
    def keys(self) -> AbstractSet[str]:
        """The pods of all writes, queued or sent; a live view."""
        return self._keys

    @property
    def full(self) -> bool:
        """Whether no more writes should be started until one ends. Those that wait for bindings do not count."""
        return self._counted >= self._most

    async def wait_for_room(self) -> None:
        """Wait until the queue is at most three quarters full."""
        self._room.clear()
        while self._counted > self._enough_room:
            await self._room.wait()
            self._room.clear()

    @property
    def _counted(self) -> int:
        return len(self._keys) - self._queue.held

    @property
    def under_way(self) -> int:
        """The number of pods whose write is queued or sent, or whose binding others wait for."""
        return len(self._keys) + self._queue.on_way

    def start(self, key: str, uid: str, write: Write, node: str = "", arrival: Hashable = None) -> None:
        """Write the pod in the background; start no second write of the same pod. arrival: see `UngateOrder.put`."""
        self._keys.add(key)
        self._queue.put(node, uid, (key, write), arrival)
        # Not at once: the writes that are started next belong in the same order.
        asyncio.get_running_loop().call_soon(self._send)

    def bound_or_gone(self, _key: str, uid: str) -> None:
        """Send what waited for this pod's binding. An earlier pod of its name has another uid."""
        self._pace.bound_or_gone(uid, monotonic())
        self._wait_no_longer(uid)

    async def settle(self) -> None:
        """Wait for all writes, and for no binding."""
        while self._keys:
            self._queue.let_all_go()
            self._send()
            await asyncio.wait(self._tasks.values())

    def cancel(self) -> None:
        """Cancel all writes when the process ends."""
        self._queue.clear()
        self._keys.clear()
        for task in self._tasks.values():
            task.cancel()

    def _wait_no_longer(self, uid: str) -> None:
        if self._queue.arrived(uid):
            self._send()

    def _send(self) -> None:
        """Send queued writes while slots are free."""
        while len(self._tasks) < self._at_a_time and (following := self._queue.pop()) is not None:
            uid, (key, write) = following
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
            self._room.set()
        # Not after a cancellation: then the process ends, and nothing more is sent.
        if written and self._queue.is_on_way(uid):
            self._pace.ungated(uid, monotonic())
            asyncio.get_running_loop().call_later(self._pace.patience, self._wait_no_longer, uid)
        elif not written:
            self._queue.arrived(uid)
        self._send()
        if fault:
            self._failed(key, uid, fault)
        else:
            self._ended(uid, written)
