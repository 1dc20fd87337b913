"""Finds the pod of a Binding: in the cache, else by one GET.

The scheduler may see a pod, or the removal of its gate, some milliseconds before the cache does. So the cache is read
for a little longer before the API server is called: almost no real Binding needs that call. Forged reviews, for example
of pods that do not exist, cause a bounded number of calls per second.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from webhook.formats.kubernetes.gates import is_gated
from webhook.state.cluster_cache import ClusterCache

# A watch shows a change within milliseconds.
_WATCH_SECONDS: Final = 0.05
_POLL_SECONDS: Final = 0.005
# Parallel GETs, and the minimum time that each one holds its slot: 100 per second.
_SLOTS: Final = 4
_SLOT_SECONDS: Final = 0.04
# A few hundred bytes each.
_REMEMBERED: Final = 4096

Fetch = Callable[[str, str], Awaitable[Mapping[str, Any] | None]]
"""(namespace, name) -> the pod by one GET; None if there is none."""


class PodLookup:
    """Finds pods. fetch: the GET."""

    def __init__(self, cache: ClusterCache, fetch: Fetch) -> None:
        self._cache = cache
        self._fetch = fetch
        self._slots = asyncio.Semaphore(_SLOTS)
        self._absent: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    async def find(self, namespace: str, name: str, uid: str, give_up: float) -> Mapping[str, Any] | None:
        """The pod, with this uid if one is given; None if there is none.

        Raises TimeoutError if no lookup was free before `give_up` (the event loop's clock), and what `fetch`
        raises.
        """
        clock = asyncio.get_running_loop().time
        patience = min(give_up, clock() + _WATCH_SECONDS)
        while (pod := self._bindable(namespace, name, uid)) is None:
            if clock() >= patience:
                return await self._ask(namespace, name, uid, give_up)
            await asyncio.sleep(_POLL_SECONDS)
        return pod

    def _bindable(self, namespace: str, name: str, uid: str) -> Mapping[str, Any] | None:
        pod = self._cache.waiting_pod(f"{namespace}/{name}", uid)
        return None if pod is None or is_gated(pod) else pod

    async def _ask(self, namespace: str, name: str, uid: str, give_up: float) -> Mapping[str, Any] | None:
        if (namespace, name, uid) in self._absent:
            return None
        loop = asyncio.get_running_loop()
        async with asyncio.timeout_at(give_up):
            await self._slots.acquire()
        began = loop.time()
        try:
            if (pod := self._bindable(namespace, name, uid)) is not None:
                return pod
            pod = await self._fetch(namespace, name)
        finally:
            loop.call_later(max(0.0, began + _SLOT_SECONDS - loop.time()), self._slots.release)
        if uid and (pod is None or (pod.get("metadata") or {}).get("uid") != uid):
            # A missing uid stays missing. Without a uid, a pod of this name may be created at any moment.
            self._absent[namespace, name, uid] = None
            if len(self._absent) > _REMEMBERED:
                self._absent.popitem(last=False)
            return None
        return pod
