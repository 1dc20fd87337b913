"""Shutdown on a signal: the first one starts a graceful shutdown, the second one exits at once."""

import asyncio
import os
import signal
import sys

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
    """Shut down without losing a request; returns when the listener is closed.

    Phases:
    1. Not ready: /readyz fails and answers close their connections, so endpoints and clients switch to other replicas.
    2. Continue serving: requests still arrive until kube-proxy and the API server have noticed.
    3. Finish: no new connections are accepted, and requests in flight are answered.
    All phases together take at most `drain_seconds`.
    """
    health.drain()
    log.info("drain.begun", seconds=drain_seconds)
    await asyncio.sleep(settle_seconds(drain_seconds))
    await listener.close()
    log.info("drain.done")


SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_event() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets. The second one ends the process at once."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def take(number: signal.Signals) -> None:
        if event.is_set():
            log.warning("stop.at_once", signal=number.name)
            sys.stdout.flush()
            os._exit(128 + number)  # no cleanup: the first signal is for that
        log.info("stop.asked", signal=number.name)
        event.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, take, number)
    return event
