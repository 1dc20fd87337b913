"""On SIGUSR2 a replica logs what its state holds, and where that differs from fresh lists (see `state.debugger`).

The lists are read page by page between reviews, as an informer reads its first one. They are read twice.
"""

import asyncio
import signal
from typing import Final, NoReturn

import structlog

from webhook.app.informers import LIVE_PODS
from webhook.kube.api_errors import ClusterError
from webhook.kube.client import Client
from webhook.kube.discovery import NODE_RESOURCE_TOPOLOGIES, locate
from webhook.kube.informer import PAGE_SIZE
from webhook.kube.pacing import Turns
from webhook.kube.resource import Resource
from webhook.state.cluster_cache import ClusterCache
from webhook.state.debugger import SHOWN, Comparison, Difference, Kind, confirmed, dump

log = structlog.get_logger(__name__)

# A watch that is this far behind has fallen behind: usually it is some milliseconds.
_BETWEEN_SECONDS: Final = 5.0


class Debugger:
    """Waits for the signal."""

    def __init__(self, cache: ClusterCache, client: Client) -> None:
        self._cache = cache
        self._client = client
        self._asked = asyncio.Event()

    async def run(self) -> NoReturn:
        """Report at each signal, until cancelled. Signals that come during a report lead to one more."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, self._asked.set)
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self.report()
            except ClusterError as error:
                log.warning("state.not_compared", error=str(error))

    async def report(self) -> None:
        """Log the dump and the differences. Raises ClusterError if the cluster cannot be listed."""
        log.info("state.dump", **dump(self._cache))
        first = await self._differences()
        await asyncio.sleep(_BETWEEN_SECONDS)
        found = confirmed(first, await self._differences()) if first else ()
        for one in found[:SHOWN]:
            log.warning("state.differs", kind=one.kind.value, object=one.key, how=one.how.value)
        log.info("state.compared", differences=len(found), left_out=max(0, len(found) - SHOWN))

    async def _differences(self) -> frozenset[Difference]:
        comparison = Comparison(self._cache)
        await self._list(comparison, Kind.NAMESPACES, Resource("", "v1", "namespaces"))
        await self._list(comparison, Kind.NODES, Resource("", "v1", "nodes"))
        if (served := await locate(self._client, NODE_RESOURCE_TOPOLOGIES)) is not None:
            await self._list(comparison, Kind.TOPOLOGIES, served)
        await self._list(comparison, Kind.PODS, Resource("", "v1", "pods"), LIVE_PODS)
        return comparison.differences()

    async def _list(self, comparison: Comparison, kind: Kind, resource: Resource, selector: str = "") -> None:
        query: dict[str, str | int] = {"limit": PAGE_SIZE, **({"fieldSelector": selector} if selector else {})}
        turns = Turns()
        while True:
            page = await self._client.page(resource.path, query)
            for raw, _ in page.objects():
                comparison.saw(kind, raw)
                if turns.is_over():
                    await turns.next()
            if not (follows := page.metadata.get("continue")):
                return
            query["continue"] = str(follows)
