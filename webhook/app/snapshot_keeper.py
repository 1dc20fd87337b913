"""Applies changes to the engine's arrays between reviews, so that no review pays for many of them.

This also announces the changes that are due to time alone (see `advance` in `webhook.state.cluster_cache`).
The first snapshot reads all nodes and is required for readiness.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NoReturn

import structlog

from webhook.app.informers import Watched
from webhook.collector import collector_paused
from webhook.kube.turns import Turns
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# In a cluster of 50,000 nodes the NRTs of 80 nodes change in this time. Writing their columns takes 5 ms.
_PERIOD_SECONDS: Final = 0.1
_NODES_AT_ONCE: Final = 32


class SnapshotKeeper:
    """Keeps the cache's snapshot current, once all objects of `watched` are known."""

    def __init__(self, cache: ClusterCache, watched: Sequence[Watched]) -> None:
        self.is_current = False
        """Whether there is a snapshot of all objects."""
        self._cache = cache
        self._watched = watched

    async def run(self) -> NoReturn:
        """Take snapshots until cancelled."""
        for watched in self._watched:
            await watched.informer.synced.wait()
        with collector_paused():
            await self._prepare()
            self._cache.snapshot()
        self.is_current = True
        log.info("serve.synced", objects={watched.status.name: watched.status.objects for watched in self._watched})
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            await self._prepare()
            self._cache.advance()

    async def _prepare(self) -> None:
        """Apply what has changed on each node; reviews, health checks and informers run in between."""
        turns = Turns()
        while not self._cache.prepare(_NODES_AT_ONCE):
            if turns.is_over():
                await turns.next()
