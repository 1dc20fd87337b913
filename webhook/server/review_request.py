"""The HTTP request of an AdmissionReview: its deadline and its body."""

import re
from functools import lru_cache
from typing import Final

from aiohttp import web


class TooLargeError(Exception):
    """The body is larger than allowed."""


def arrived_body(request: web.Request, largest: int) -> bytes | None:
    """The body, if all of it has arrived with the head, as of most reviews; None otherwise. Raises TooLargeError."""
    if (request.content_length or 0) > largest:
        raise TooLargeError
    if not request.content.is_eof():
        return None
    body = request.content.read_nowait()
    if len(body) > largest:  # chunks have no length before they come
        raise TooLargeError
    return body


async def read_body(request: web.Request, largest: int) -> bytearray:
    """The whole body; raises TooLargeError as soon as it exceeds `largest` bytes.

    Not `request.read()`: for each request aiohttp would buffer twice the largest body before we see the first byte.
    """
    if (request.content_length or 0) > largest:
        raise TooLargeError
    body = bytearray()
    try:
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > largest:
                raise TooLargeError  # noqa: TRY301 # the body is freed as for any other error
    except BaseException:
        # The exception's traceback refers to this frame and back. Without this, only the garbage collector, which
        # rarely runs, would free the bytes received so far.
        body.clear()
        raise
    return body


# The API server's timeout if a webhook configuration sets none; it sends this value in the parameter, too.
DEFAULT_SECONDS: Final = 10.0

# The largest timeoutSeconds that a webhook configuration allows. A client with a larger one is not an API server.
MAX_SECONDS: Final = 30.0
# The API server writes "30s"; Go's longest duration below half a minute is "29.999999999s". The time to parse digits
# grows with the square of their number: 8,000 took a second.
_MAX_CHARACTERS: Final = 16

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")  # Go accepts both signs for micro
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@lru_cache(maxsize=16)  # all calls of a webhook configuration have the same value
def deadline_seconds(timeout: str | None) -> float:
    """Seconds in `timeout` ("10s", "500ms"), at most 30; the default if it is missing or invalid."""
    if not timeout or len(timeout) > _MAX_CHARACTERS or _PART.sub("", timeout):
        return DEFAULT_SECONDS
    return min(MAX_SECONDS, sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(timeout)))
