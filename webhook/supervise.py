"""Background tasks that are restarted after a failure.

The wait grows from failure to failure up to half a minute, with jitter. After a run longer than that, the task restarts
with the shortest wait.
"""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Final, NoReturn

import structlog

from webhook.internal_errors import Where, internal_error
from webhook.kube.pacing import Backoff

log = structlog.get_logger(__name__)

_LONGEST_SECONDS: Final = 30.0


async def supervised(run: Callable[[], Coroutine[Any, Any, None]], backoff: Backoff | None = None) -> NoReturn:
    """Run the task until cancelled, and restart it whenever it fails."""
    backoff = backoff or Backoff(cap=_LONGEST_SECONDS)
    name = getattr(run, "__qualname__", repr(run))
    while True:
        began = monotonic()
        try:
            await run()
        except Exception as error:  # noqa: BLE001 # a fault of one task must not end the others
            internal_error(Where.TASK, error, task=name)
        else:
            log.error("task.ended", task=name)  # tasks should not end; it is restarted anyway
        if monotonic() - began > _LONGEST_SECONDS:
            backoff.reset()
        seconds = backoff.next()
        log.warning("task.restarting", task=name, seconds=round(seconds, 3))
        await asyncio.sleep(seconds)
