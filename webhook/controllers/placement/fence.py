"""After a change of leader: what the last one still has under way into gated pods is made impossible.

A patch of the last leader may be in the API server's hands for as long as a request can take. It names the resource
version it was made from. So every gated pod is changed once, by an annotation with the new term's name, before the new
leader gives out anything:
1. A patch that came before is in the pod, and our copy of the cluster is waited for until it shows it.
2. A patch that comes after is refused.
The last leader knew no gated pod that we do not know by now: it stopped seconds before its Lease could be claimed.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from webhook.internal_errors import Where, contained
from webhook.kube.backoff import Backoff
from webhook.kube.pod_writes import Outcome, PodWrites
from webhook.model.names import EPOCH

log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 0.02


async def fence(
    gated: Callable[[], Mapping[str, Mapping[str, Any]]],
    writes: PodWrites,
    term: str,
    goes_on: Callable[[], bool],
    concurrency: int,
) -> bool:
    """Fence all pods that are gated now; False when the term ended before that was done."""
    slots = asyncio.Semaphore(concurrency)
    fenced = await asyncio.gather(*(_bump(key, writes, term, goes_on, slots) for key in tuple(gated())))
    keys = {key for key in fenced if key is not None}
    while goes_on() and any(_epoch(gated().get(key), term) != term for key in keys):  # noqa: ASYNC110 # many objects
        await asyncio.sleep(_POLL_SECONDS)
    log.info("placement.fenced", pods=len(keys), term=term)
    return goes_on()


async def _bump(
    key: str, writes: PodWrites, term: str, goes_on: Callable[[], bool], slots: asyncio.Semaphore
) -> str | None:
    """The key once the pod has the annotation; None when it is gone."""
    backoff = Backoff()
    async with slots:
        while goes_on():
            with contained(Where.WRITE, pod=key):
                outcome = await writes.annotate(key, EPOCH, term)
                if outcome is Outcome.WRITTEN:
                    return key
                if outcome is Outcome.GONE:
                    return None
                log.warning("placement.fence_retry", pod=key, error=writes.error)
            await asyncio.sleep(backoff.next())
    return None


def _epoch(raw: Mapping[str, Any] | None, term: str) -> str:
    """The term in the pod; one that is gated no more needs none."""
    if raw is None:
        return term
    return str((raw["metadata"].get("annotations") or {}).get(EPOCH, ""))
