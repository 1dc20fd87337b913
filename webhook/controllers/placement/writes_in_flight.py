"""The leader's writes in flight: one per pod, with a limit on how many are sent at a time.

1. A write is queued under the node of its pod. Nodes have turns, and the order on each node stays. A pod may have to
   wait until others are bound to its node (`UngateOrder`).
2. As soon as a slot is free, the next write is sent in a task of its own.
3. A failed write affects only itself. Its exception is counted and logged, and its pod is retried later.
4. When the queue is full, its caller waits until a quarter of it is free: what it starts then is worth a cycle.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Generic, TypeVar

from webhook.internal_errors import Where, internal_error

# A fresh leader has seen no binding yet: more than ten times what one takes on a machine that is not overloaded.
LEAST_SECONDS: Final = 0.25
# On an overloaded machine a scheduler's attempt and its Binding took up to 3 s. A pod that takes longer may be one that
# the scheduler cannot bind.
MOST_SECONDS: Final = 5.0
# Of what the last ones took.
_TIMES: Final = 2.0
# After a slow one: twenty quick ones later the wait is an eighth.
_KEPT_SHARE: Final = 0.9


class BindingPace:
    """How long to wait for the binding of an ungated pod before the next pods of its node are ungated.

    A pod is usually bound some 20 ms after it is ungated, on an overloaded machine after seconds. So the wait follows
    what the last pods took. A scheduler that binds nothing holds up the pods of a node for a moment only. Pods are
    known by uid; times are in seconds of any one clock.
    """

    def __init__(self) -> None:
        self._ungated: dict[str, float] = {}
        """When each was ungated, oldest first."""
        self._usual = 0.0

    @property
    def patience(self) -> float:
        """Seconds to wait for a binding."""
        return min(MOST_SECONDS, max(LEAST_SECONDS, _TIMES * self._usual))

    def ungated(self, pod: str, now: float) -> None:
        """Record that the pod was ungated, and forget those that take too long."""
        self._ungated.pop(pod, None)
        self._ungated[pod] = now
        while now - next(iter(self._ungated.values())) > MOST_SECONDS:
            del self._ungated[next(iter(self._ungated))]

    def bound_or_gone(self, pod: str, now: float) -> None:
        """Learn from a pod that is bound or gone."""
        if (since := self._ungated.pop(pod, None)) is not None:
            self._usual = max(min(now - since, MOST_SECONDS), _KEPT_SHARE * self._usual)


Item = TypeVar("Item")

_Lane = tuple[str, bool]
"""(node, whether the order of its pods counts)."""


@dataclass(slots=True)
class _Pods(Generic[Item]):
    """The pods of one lane."""

    queue: deque[tuple[str, Item, Hashable]] = field(default_factory=deque)
    """(pod, item, arrival class), in order."""
    on_way: set[str] = field(default_factory=set)
    """The pods that were taken from the queue and have not arrived."""
    arrival: Hashable = None
    """The class of those on their way."""
    held: int = 0
    """How many of the queue are counted as held up."""

    @property
    def may_go(self) -> bool:
        """Whether the first of the queue need not wait."""
        return bool(self.queue) and (not self.on_way or self.queue[0][2] == self.arrival)


class UngateOrder(Generic[Item]):
    """The order in which assigned pods are ungated: nodes in turn, and on each node in the order of its kubelet.

    A kubelet gives NUMA nodes in the order in which pods arrive, so bindings to one node wait for each other (see
    `admission.binding.guard`). A binding that waits too long is refused, which costs more than a binding. So the pods
    of one node are ungated in the order in which they must arrive:
    1. Pods that may arrive in any order are ungated side by side. They are of one arrival class: equal pods that get
       the same NUMA nodes.
    2. The next class of the node follows when all pods of the one before are bound or gone. Meanwhile other nodes have
       their turn, so that the scheduler always has pods to bind.
    3. A pod without a class waits for none and holds up none: it has no NUMA nodes, or the service chooses them.

    The caller reports each pod that is bound, gone, or not ungated after all. It also reports a pod that takes too long
    (see `BindingPace`): the scheduler may not be able to bind it at all, and then the guard decides on the next ones.
    Pods are identified by their uids: a StatefulSet gives the name of a pod to the next one.
    """

    def __init__(self) -> None:
        self._lanes: dict[_Lane, _Pods[Item]] = {}
        self._turns: dict[_Lane, None] = {}
        """The lanes whose first pod may go, in the order of their turn."""
        self._on_way: dict[str, _Lane] = {}
        self.held = 0
        """The number of queued pods on nodes where others must arrive first."""

    def put(self, node: str, pod: str, item: Item, arrival: Hashable = None) -> None:
        """Queue a pod. arrival: its class, equal for pods that may reach the node in any order."""
        lane = node, arrival is not None
        self._lanes.setdefault(lane, _Pods()).queue.append((pod, item, arrival))
        self._changed(lane)

    def pop(self) -> tuple[str, Item] | None:
        """Remove and return the next pod that may go: it is on its way from now on. None if none may."""
        lane = next(iter(self._turns), None)
        if lane is None:
            return None
        del self._turns[lane]
        pods = self._lanes[lane]
        pod, item, arrival = pods.queue.popleft()
        if arrival is not None:
            pods.arrival = arrival
            pods.on_way.add(pod)
            self._on_way[pod] = lane
        self._changed(lane)
        return pod, item

    @property
    def on_way(self) -> int:
        """The number of pods that others may wait for."""
        return len(self._on_way)

    def is_on_way(self, pod: str) -> bool:
        """Whether others may wait for this pod."""
        return pod in self._on_way

    def arrived(self, pod: str) -> bool:
        """Wait for this pod no longer. True if that lets others go."""
        lane = self._on_way.pop(pod, None)
        if lane is None:
            return False
        self._lanes[lane].on_way.discard(pod)
        return self._changed(lane)

    def let_all_go(self) -> None:
        """Wait for none of the pods on their way."""
        for pod in tuple(self._on_way):
            self.arrived(pod)

    def clear(self) -> None:
        """Drop everything."""
        self._lanes.clear()
        self._turns.clear()
        self._on_way.clear()
        self.held = 0

    def _changed(self, lane: _Lane) -> bool:
        """Give the lane a turn if its first pod may go, and forget it if it is empty. True if it got a turn."""
        pods = self._lanes[lane]
        may_go = pods.may_go
        held = 0 if may_go else len(pods.queue)
        self.held += held - pods.held
        pods.held = held
        if not pods.queue and not pods.on_way:
            del self._lanes[lane]
        if not may_go or lane in self._turns:
            return False
        self._turns[lane] = None
        return True


Send = Callable[[], Awaitable[bool]]
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
        self._queue = UngateOrder[tuple[str, Send]]()  # by uid: (namespace/name, write)
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

    def start(self, key: str, uid: str, write: Send, node: str = "", arrival: Hashable = None) -> None:
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

    async def _run(self, key: str, uid: str, write: Send) -> None:
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
