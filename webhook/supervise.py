"""Background tasks that outlive their faults: one that fails is started again, after a while.

The wait grows from failure to failure up to half a minute, with jitter. A task that ran longer than that in between
starts with the shortest one.
"""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Final, NoReturn

import structlog

from webhook.internal_errors import Where, internal_error
from webhook.kube.backoff import Backoff

log = structlog.get_logger(__name__)

_LONGEST_SECONDS: Final = 30.0


async def supervised(run: Callable[[], Coroutine[Any, Any, None]], backoff: Backoff | None = None) -> NoReturn:
    """Run it until cancelled, again whenever it fails."""
    backoff = backoff or Backoff(cap=_LONGEST_SECONDS)
    name = getattr(run, "__qualname__", repr(run))
    while True:
        began = monotonic()
        try:
            await run()
        except Exception as error:  # noqa: BLE001 # a fault of one task is that task's
            internal_error(Where.TASK, error, task=name)
        else:
            log.error("task.ended", task=name)  # it should not; it is started again all the same
        if monotonic() - began > _LONGEST_SECONDS:
            backoff.reset()
        seconds = backoff.next()
        log.warning("task.restarting", task=name, seconds=round(seconds, 3))
        await asyncio.sleep(seconds)
