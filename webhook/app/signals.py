"""Shutdown on a signal: the first one starts a graceful shutdown, the second one exits at once."""

import asyncio
import os
import signal
import sys

import structlog

log = structlog.get_logger(__name__)

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
