"""A live cluster that informers follow: for commands that keep showing it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NoReturn

from webhook.app.informers import FAILED_PODS, PODS, Watched, watch_cluster
from webhook.app.settings import Settings, rules_of, times_of
from webhook.cli.input.live_cluster import connected
from webhook.formats.koordinator.numa_allocation import UnverifiedAllocations
from webhook.kube.informer import InformerStatus
from webhook.state.cluster_cache import ClusterCache
from webhook.supervise import supervised

_ADVANCE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class FollowedCluster:
    """The cache, which follows the cluster named `host`."""

    cache: ClusterCache
    host: str
    watched: Sequence[Watched]

    async def synced(self) -> None:
        """Wait until every kind was listed once."""
        for each in self.watched:
            await each.informer.synced.wait()

    def errors(self) -> tuple[str, ...]:
        """A sentence for each kind that cannot be read."""
        return tuple(
            f"{each.status.name} cannot be read: {each.status.error}" for each in self.watched if each.status.error
        )


@asynccontextmanager
async def followed(settings: Settings) -> AsyncIterator[FollowedCluster]:
    """The cluster of the settings, followed within this context. Raises ClusterError."""
    pods, failed = InformerStatus(PODS), InformerStatus(FAILED_PODS)
    cache = ClusterCache(
        times_of(settings), rules=rules_of(settings), pods_in_order=pods.in_order, failed_in_order=failed.in_order
    )
    cache.use_allocation_key(UnverifiedAllocations(b""))

    async def keep_current() -> NoReturn:
        while True:  # a replica, too, applies regularly what time alone changes
            await asyncio.sleep(_ADVANCE_SECONDS)
            cache.advance()

    async with connected(settings) as client:
        watched = watch_cluster(client, cache, pods, failed)
        loops = (*(each.run for each in watched), keep_current)
        running = [asyncio.create_task(supervised(loop)) for loop in loops]
        try:
            yield FollowedCluster(cache, client.host, watched)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
