"""Timers that never fire before their time, as seen by `time.monotonic`."""

import asyncio
from collections.abc import Callable
from typing import Final

# uvloop counts whole milliseconds from the start of a turn of the event loop: a timer may fire more than one early.
# What should be due then would be found not to be due, and nothing would wake its loop again.
_EARLY_SECONDS: Final = 0.005


def call_after(seconds: float, act: Callable[[], None]) -> None:
    """Call `act` once at least so many seconds have passed."""
    asyncio.get_running_loop().call_later(seconds + _EARLY_SECONDS, act)
