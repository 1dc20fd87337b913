"""Ending without losing a request.

Phases:
1. Not ready: /readyz fails and answers close their connections, so that endpoints and clients turn to other replicas.
2. Serve on: until kube-proxy and the API server have noticed, requests still come.
3. Finish: no new connections; what is in flight is answered. All of it within `drain_seconds`.
"""

import asyncio

import structlog

from webhook.server.health import Health
from webhook.server.listener import Listener

log = structlog.get_logger(__name__)

# A readiness change reaches every node's kube-proxy within a second or two; 3 s leave room for a slow one.
_LONGEST_SETTLE = 3.0


def settle_seconds(drain_seconds: float) -> float:
    """How long phase 2 takes: half the time at most, so that phase 3 has some."""
    return min(_LONGEST_SETTLE, drain_seconds / 2)


def finish_seconds(drain_seconds: float) -> float:
    """How long phase 3 may take."""
    return drain_seconds - settle_seconds(drain_seconds)


async def drain(health: Health, listener: Listener, drain_seconds: float) -> None:
    """Go through the phases."""
    health.drain()
    log.info("drain.begun", seconds=drain_seconds)
    await asyncio.sleep(settle_seconds(drain_seconds))
    await listener.close()
    log.info("drain.done")
