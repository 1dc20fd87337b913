"""What happens in the cluster: exporters and kubelets report, pods come, are placed and bound, run and go.

Everything has a rate and its own schedule. What is late is sent at once, so the rate holds on average.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from tests.scale.fleet import namespace_of
from tests.scale.objects import new_pod, running
from tests.scale.reviews import RefusedError
from webhook.codec import loads
from webhook.formats.kubernetes.gates import is_gated
from webhook.model.names import NUMA_ALLOCATION

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.scale.reviews import Reviews
    from tests.scale.storage import Storage
    from webhook.model.raw import Draft

_TICK_SECONDS: Final = 0.01
_NODE_HEARTBEAT_SECONDS: Final = 300.0
# The scheduler tries a refused pod again after its backoff.
_BACKOFF_SECONDS: Final = 1.0
_OWNERS: Final = 100


@dataclass
class Counts:
    """What has happened."""

    created: int = 0
    bound: int = 0
    refused: int = 0
    failed: list[str] = field(default_factory=list)
    assign_seconds: list[float] = field(default_factory=list)
    """From a pod's event to the patch that removes its gate."""


class Load:
    """The load. lives: seconds that a pod runs."""

    def __init__(self, storage: Storage, reviews: Reviews, lives: float) -> None:
        self.counts = Counts()
        self._storage = storage
        self._reviews = reviews
        self._lives = lives
        self._assigned: dict[str, asyncio.Event] = {}
        self._pods: set[asyncio.Task[None]] = set()
        self._number = 0
        self._turns = {"nodes": 0, "topologies": 0}
        storage.changed = self._pod_changed

    async def run(self, seconds: float, updates: float, pods: float) -> None:
        """Keep the load up. updates: NRTs a second; pods: created a second."""
        storage = self._storage
        heartbeats = storage.fleet.nodes / _NODE_HEARTBEAT_SECONDS
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_at_rate(updates, seconds, lambda: storage.update_topology(self._turn("topologies"))))
            tasks.create_task(_at_rate(heartbeats, seconds, lambda: storage.update_node(self._turn("nodes"))))
            tasks.create_task(_at_rate(pods, seconds, self._create))

    async def end(self) -> None:
        """Wait until every pod has gone."""
        while self._pods:
            await asyncio.wait(self._pods)

    def flood(self, count: int) -> None:
        """Update so many NRTs at once, beginning with that of the first node."""
        for number in range(count):
            self._storage.update_topology(number % self._storage.fleet.nodes)

    def unplaced(self) -> Draft:
        """A pod for a review that creates nothing."""
        return self._new_pod()

    def _turn(self, what: str) -> int:
        self._turns[what] += 1
        return self._turns[what] % self._storage.fleet.nodes

    def _create(self) -> None:
        task = asyncio.create_task(self._live(self._new_pod()))
        self._pods.add(task)
        task.add_done_callback(self._pods.discard)

    def _new_pod(self) -> Draft:
        self._number += 1
        number = self._number
        return new_pod(f"job-{number}", namespace_of(number), f"uid-{number}", f"web-{number % _OWNERS}")

    async def _live(self, pod: Draft) -> None:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self.counts.created += 1
        try:
            pod = self._storage.put_pod(key, await self._reviews.create(pod))
            if not await self._is_assigned(key, pod):
                self.counts.failed.append("no assignment within a minute")
                return
            await self._bind(key)
            await asyncio.sleep(self._lives)
        except (RefusedError, aiohttp.ClientError, TimeoutError) as error:
            self.counts.failed.append(str(error) or type(error).__name__)
        finally:
            if key in self._storage.created:
                self._storage.delete_pod(key)

    async def _is_assigned(self, key: str, pod: Draft) -> bool:
        if not is_gated(pod):
            return True
        self._assigned[key] = asyncio.Event()
        began = time.monotonic()
        try:
            async with asyncio.timeout(60.0):
                await self._assigned[key].wait()
        except TimeoutError:
            return False
        finally:
            del self._assigned[key]
        self.counts.assign_seconds.append(time.monotonic() - began)
        return True

    def _pod_changed(self, key: str, pod: Draft) -> None:
        if (assigned := self._assigned.get(key)) is not None and not is_gated(pod):
            assigned.set()

    async def _bind(self, key: str) -> None:
        """What the scheduler does with a pod for which one node is left, and then the kubelet."""
        while True:
            pod = self._storage.created[key]
            node = loads(pod["metadata"]["annotations"][NUMA_ALLOCATION])["node"]
            try:
                annotations = await self._reviews.bind(pod, node)
            except RefusedError:
                self.counts.refused += 1
                await asyncio.sleep(_BACKOFF_SECONDS)
                continue
            self._storage.bind_pod(key, node, annotations)
            self.counts.bound += 1
            break
        pod = self._storage.created[key]
        status = running()
        status["conditions"] = [*pod["status"]["conditions"], *status["conditions"][:-1]]
        self._storage.put_pod(key, {**pod, "status": status | {"qosClass": "Guaranteed"}})


async def _at_rate(rate: float, seconds: float, act: Callable[[], None]) -> None:
    """Act `rate` times a second."""
    began, done = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        due = int(passed * rate)
        for _ in range(due - done):
            act()
        done = due
        await asyncio.sleep(_TICK_SECONDS)


async def at_once(count: int, seconds: float, call: Callable[[], Coroutine[Any, Any, object]]) -> int:
    """Make `count` calls at a time, the next one when one has ended. Returns how many ended."""
    until, done = time.monotonic() + seconds, 0

    async def one_after_the_other() -> None:
        nonlocal done
        while time.monotonic() < until:
            await call()
            done += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(one_after_the_other())
    return done
