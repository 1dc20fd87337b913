"""Checks assumed pods that expired before any object showed them, and forgets those that failed.

A pod is assumed before its answer is sent. Usually an informer shows the pod bound a moment later, and the assumed pod
has served its purpose. If that does not happen in time, the pod is read with a GET:
1. It is bound to the node of the assumed pod, or that node is assigned to it: the informer is behind. The assumed pod
   stays until the informer catches up.
2. Anything else (the pod waits, is bound to another node, is another pod of that name, or is gone): the answer was
   lost, or another component rejected the binding later. By now the API server has given up on the request, or it never
   received one. The assumed pod is forgotten.

So are allocations of claims by others that were reviewed and never came: their watch has had ample time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from webhook.controllers.sweep import Sweep
from webhook.formats.kubernetes.gates import waits_for_us_alone
from webhook.internal_errors import Where, contained
from webhook.kube.api_errors import ClusterError
from webhook.kube.election import Term
from webhook.model.raw import Raw
from webhook.model.shards import DEFAULT_SHARD
from webhook.placing.pod.binding_pod import assigned_node
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# Pause before a pod that has its assignment is read again: the informer is behind for some reason.
_AGAIN_SECONDS: Final = 5.0
# Concurrent GETs.
_SLOTS: Final = 8
_POLL_SECONDS: Final = 0.05

Fetch = Callable[[str, str], Awaitable[Raw | None]]
"""(namespace, name) -> the pod, read with one GET; None if it does not exist."""


class AssumedPodSweep(Sweep):
    """Forgets assumed pods that failed. Runs on every replica: a former leader may still hold some."""

    # Assumed pods of callers that may be forgers expire after a second or so, and another pod may wait for the
    # resources.
    period = 0.25
    leader_only = False

    def __init__(
        self, cache: ClusterCache, fetch: Fetch, came_to_nothing: Callable[[str, str, float], None] | None = None
    ) -> None:
        """came_to_nothing: called with the pod, its uid and the time for each binding that was not written.

        It is called with claims whose reviewed allocation was not written, too.
        """
        super().__init__(_never)
        self._cache = cache
        self._fetch = fetch
        self._came_to_nothing = came_to_nothing
        self._taken: dict[tuple[str, str], float] = {}  # (namespace/name, uid) -> when it was read

    async def _sweep(self, now: float) -> None:
        self._taken = {one: at for one, at in self._taken.items() if now - at < _AGAIN_SECONDS}
        for claim, uid in self._cache.devices.expire_notes(now):
            if self._came_to_nothing is not None:
                self._came_to_nothing(claim, uid, now)
        slots = asyncio.Semaphore(_SLOTS)
        expired = [one for one in self._cache.expired_pods(now) if (one.pod, one.uid) not in self._taken]
        await asyncio.gather(*(self._look_at(assumed_pod, slots, now) for assumed_pod in expired))

    async def _look_at(self, assumed_pod: AssumedPod, slots: asyncio.Semaphore, now: float) -> None:
        """Forget the assumed pod if the pod did not get its assignment."""
        namespace, _, name = assumed_pod.pod.partition("/")
        with contained(Where.POD, pod=assumed_pod.pod):
            try:
                async with slots:
                    pod = await self._fetch(namespace, name)
            except ClusterError as error:
                self._taken[assumed_pod.pod, assumed_pod.uid] = now  # unknown: it is read again later
                log.warning("assumed_pod.retry", pod=assumed_pod.pod, error=str(error))
                return
            # It may have been assumed again meanwhile, with a later expiry.
            held = self._cache.assumed_by(assumed_pod.pod)
            if held is None or held.expires > now:
                return
            if _took(pod, held):
                self._taken[held.pod, held.uid] = now
                return
            log.info("assumed_pod.forgotten", pod=held.pod, node=held.node)
            self._cache.expire(held)
            if held.is_binding and self._came_to_nothing is not None:
                self._came_to_nothing(held.pod, held.uid, now)

    def started(self, term: Term, shard: str = DEFAULT_SHARD) -> None:
        """Do nothing: assumed pods do not depend on the term."""

    def stopped(self, shard: str = DEFAULT_SHARD) -> None:
        """Do nothing: the assumed pods outlive the term."""

    async def settle(self, shard: str | None = None) -> None:
        """Wait until every assumed pod, or every one of a shard, is shown by an object or forgotten."""
        while self._cache.assumed_count if shard is None else self._is_assumed_in(shard):  # noqa: ASYNC110 # many objects
            await asyncio.sleep(_POLL_SECONDS)

    def _is_assumed_in(self, shard: str) -> bool:
        of = self._cache.shards.of
        return any(not one.tentative and of(one.node) == shard for one in self._cache.assumed_pods())


def _never() -> bool:
    return False


def _took(pod: Raw | None, assumed_pod: AssumedPod) -> bool:
    if pod is None or pod["metadata"].get("uid") != assumed_pod.uid:
        return False
    if node := pod["spec"].get("nodeName"):
        return bool(node == assumed_pod.node)
    if assumed_pod.is_binding:
        return False  # an earlier assignment is reserved by the pod's own allocation
    allocation = assigned_node(pod)
    return (
        allocation is not None
        and allocation.reserved
        and allocation.node == assumed_pod.node
        and not waits_for_us_alone(pod)
    )
