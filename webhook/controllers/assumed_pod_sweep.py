"""What was given to pods and is on its way into them: looked after until every one of them shows it, or never will.

An assumed pod is made before its answer leaves. As a rule an informer shows the pod bound a moment later, and the
assumed pod has
done its work. Where that does not come in time, the pod itself is asked:
1. Bound to the node of the assumed pod, or placed there by it: the informer is behind; the assumed pod stays until that
   has come.
2. Anything else (waiting, bound elsewhere, another pod of that name, gone): the answer was lost, or somebody later
   refused the binding. The API server has given the request up by now, or none was ever made; the assumed pod is given
   back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any, Final, NoReturn

import structlog

from webhook.admission.binding.decision import assigned_node
from webhook.cache.cluster_cache import ClusterCache
from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.internal_errors import Where, contained
from webhook.kube.api_errors import ClusterError
from webhook.kube.election import Term
from webhook.model.gates import waits_for_us_alone

log = structlog.get_logger(__name__)

# Assumed pods of callers that may be forgers are expired after a second or so, and another pod may wait for it.
_PERIOD_SECONDS: Final = 0.25
# A pod that took what it was given is asked again only after so long: the informer is behind for some reason.
_AGAIN_SECONDS: Final = 5.0
# GETs at a time.
_SLOTS: Final = 8
_POLL_SECONDS: Final = 0.05

Fetch = Callable[[str, str], Awaitable[Mapping[str, Any] | None]]
"""(namespace, name) -> the pod by one GET; None when there is none."""


class AssumedPodSweep:
    """Gives back what came to nothing. Runs on every replica: who led before may still hold some."""

    def __init__(
        self, cache: ClusterCache, fetch: Fetch, came_to_nothing: Callable[[str, str, float], None] | None = None
    ) -> None:
        """came_to_nothing: called with the pod, the uid and the time of each binding that did not come."""
        self._cache = cache
        self._fetch = fetch
        self._came_to_nothing = came_to_nothing
        self._taken: dict[str, float] = {}

    async def run(self) -> NoReturn:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            await self.sweep(monotonic())

    async def sweep(self, now: float) -> None:
        """Look at every expired grant once."""
        self._taken = {pod: at for pod, at in self._taken.items() if now - at < _AGAIN_SECONDS}
        slots = asyncio.Semaphore(_SLOTS)
        expired = [assumed_pod for assumed_pod in self._cache.expired_pods(now) if assumed_pod.pod not in self._taken]
        await asyncio.gather(*(self._look_at(assumed_pod, slots, now) for assumed_pod in expired))

    async def _look_at(self, assumed_pod: AssumedPod, slots: asyncio.Semaphore, now: float) -> None:
        """Give it back if its pod does not have it."""
        namespace, _, name = assumed_pod.pod.partition("/")
        with contained(Where.POD, pod=assumed_pod.pod):
            try:
                async with slots:
                    pod = await self._fetch(namespace, name)
            except ClusterError as error:
                self._taken[assumed_pod.pod] = now  # the API server does not say: it is asked again later
                log.warning("assumed_pod.retry", pod=assumed_pod.pod, error=str(error))
                return
            held = self._cache.assumed_by(
                assumed_pod.pod
            )  # it may have been given again meanwhile, for the rest of the time
            if held is None or held.expires > now:
                return
            if _took(pod, held):
                self._taken[assumed_pod.pod] = now
                return
            log.info("assumed_pod.forgotten", pod=held.pod, node=held.node)
            self._cache.expire(held)
            if held.is_binding and self._came_to_nothing is not None:
                self._came_to_nothing(held.pod, held.uid, now)

    def started(self, term: Term) -> None:
        """Nothing begins with a term."""

    def stopped(self) -> None:
        """Nothing ends with it: the assumed pods are still there."""

    async def settle(self) -> None:
        """Wait until every grant is shown by an object or given back."""
        while self._cache.assumed_count:  # noqa: ASYNC110 # many objects, of which none is waited for by itself
            await asyncio.sleep(_POLL_SECONDS)


def _took(pod: Mapping[str, Any] | None, assumed_pod: AssumedPod) -> bool:
    if pod is None or pod["metadata"].get("uid") != assumed_pod.uid:
        return False
    if node := pod["spec"].get("nodeName"):
        return bool(node == assumed_pod.node)
    if assumed_pod.is_binding:
        return False  # where it was placed before, what is promised there follows from the pod itself
    hint = assigned_node(pod)
    return hint is not None and hint.reserved and hint.node == assumed_pod.node and not waits_for_us_alone(pod)
