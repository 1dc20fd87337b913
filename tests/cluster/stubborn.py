"""Retries of requests to an API server that may be down for a while."""

from __future__ import annotations

import http.client
import time
from typing import TYPE_CHECKING, TypeVar

from tests.cluster.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")

# Enough for several restarts one after the other on a busy machine.
PATIENCE_SECONDS = 180.0
POLL_SECONDS = 0.3
# The first attempt succeeded, but its answer was lost.
DONE_BEFORE = frozenset({"AlreadyExists", "NotFound"})


def stubbornly(do: Callable[[], Answer]) -> Answer:
    """Retry until there is an answer. After `PATIENCE_SECONDS` the last error is raised."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return do()
        except (ApiError, OSError, http.client.HTTPException) as error:
            if time.monotonic() > deadline or (isinstance(error, ApiError) and error.reason in DONE_BEFORE):
                raise
        time.sleep(POLL_SECONDS)


def done(do: Callable[[], object]) -> None:
    """Create or delete something with retries. If it already exists, or is already gone, that is a success."""
    try:
        stubbornly(do)
    except ApiError as error:
        if error.reason not in DONE_BEFORE:
            raise


def until(what: str, condition: Callable[[], Answer]) -> Answer:
    """Wait until `condition` gives something true, and return that. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := stubbornly(condition)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {PATIENCE_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
    return answer
