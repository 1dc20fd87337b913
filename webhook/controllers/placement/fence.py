"""After a change of leader, invalidates the last leader's patches to gated pods that are still in flight.

The API server may process a patch of the last leader for as long as a request can take. Each patch names the resource
version that it is based on. So before the new leader assigns anything, it changes every gated pod once, by an
annotation with the new term's name:
1. A patch that came before is in the pod, and the new leader waits until its cluster cache shows it.
2. A patch that comes after is rejected.
The last leader knew no gated pod that we do not know: it stopped seconds before its Lease could be claimed.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from webhook.internal_errors import Where, contained
from webhook.kube.pacing import Backoff
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome
from webhook.model.names import EPOCH
from webhook.model.raw import Raw

log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 0.02


async def fence(
    gated: Callable[[], Mapping[str, Raw]],
    writes: PodWrites,
    term: str,
    goes_on: Callable[[], bool],
    concurrency: int,
) -> bool:
    """Fence all pods that are gated now; False if the term ended before that was done."""
    slots = asyncio.Semaphore(concurrency)
    uids = {key: _uid(raw) for key, raw in gated().items()}
    fenced = await asyncio.gather(*(_bump(key, writes, term, goes_on, slots) for key in uids))
    keys = {key for key in fenced if key is not None}
    while goes_on() and any(_epoch(gated().get(key), uids[key], term) != term for key in keys):  # noqa: ASYNC110 # many objects
        await asyncio.sleep(_POLL_SECONDS)
    log.info("placement.fenced", pods=len(keys), term=term)
    return goes_on()


async def _bump(
    key: str, writes: PodWrites, term: str, goes_on: Callable[[], bool], slots: asyncio.Semaphore
) -> str | None:
    """Annotate the pod; returns its key, or None if it is gone or the term ended."""
    backoff = Backoff()
    async with slots:
        while goes_on():
            with contained(Where.WRITE, pod=key):
                write = await writes.annotate(key, EPOCH, term)
                if write.is_written:
                    return key
                if write.outcome is Outcome.GONE:
                    return None
                log.warning("placement.fence_retry", pod=key, error=write.error)
            await asyncio.sleep(backoff.next())
    return None


def _uid(raw: Raw) -> str:
    return str(raw["metadata"].get("uid", ""))


def _epoch(raw: Raw | None, uid: str, term: str) -> str:
    """The term in the pod's annotation; an ungated or another pod needs none and counts as fenced."""
    if raw is None or _uid(raw) != uid:
        return term
    return str((raw["metadata"].get("annotations") or {}).get(EPOCH, ""))
