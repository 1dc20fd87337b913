"""Shutdown without losing a request.

Phases:
1. Not ready: /readyz fails and answers close their connections, so endpoints and clients switch to other replicas.
2. Continue serving: requests still arrive until kube-proxy and the API server have noticed.
3. Finish: no new connections are accepted, and requests in flight are answered.
All phases together take at most `drain_seconds`.
"""

import asyncio

import structlog

from webhook.server.health import Health
from webhook.server.listener import Listener

log = structlog.get_logger(__name__)

# A readiness change reaches the kube-proxy of every node within a second or two. 3 s also suffice for a slow one.
_LONGEST_SETTLE = 3.0


def settle_seconds(drain_seconds: float) -> float:
    """Seconds of phase 2: at most half of the time, so that phase 3 has the rest."""
    return min(_LONGEST_SETTLE, drain_seconds / 2)


def finish_seconds(drain_seconds: float) -> float:
    """Maximum seconds of phase 3."""
    return drain_seconds - settle_seconds(drain_seconds)


async def drain(health: Health, listener: Listener, drain_seconds: float) -> None:
    """Run all phases; returns when the listener is closed."""
    health.drain()
    log.info("drain.begun", seconds=drain_seconds)
    await asyncio.sleep(settle_seconds(drain_seconds))
    await listener.close()
    log.info("drain.done")
