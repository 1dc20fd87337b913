"""The HTTP request of an AdmissionReview: its deadline and its body."""

import re
from functools import lru_cache
from typing import Final

from aiohttp import web


class TooLargeError(Exception):
    """The body is larger than is taken."""


async def read_body(request: web.Request, largest: int) -> bytearray:
    """The whole body, of `largest` bytes at most; raises TooLargeError as soon as it is known to be larger.

    Not `request.read()`: it has aiohttp hold twice the largest body for each request before the first byte is taken.
    """
    if (request.content_length or 0) > largest:
        raise TooLargeError
    body = bytearray()
    try:
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > largest:
                raise TooLargeError  # noqa: TRY301 # the body goes as with any other fault
    except BaseException:
        # The exception's traceback leads to this frame and back: without this only the garbage collector, which comes
        # rarely, would free what has come so far.
        body.clear()
        raise
    return body


# What the API server waits when a webhook configuration does not say; it says so in the parameter, too.
DEFAULT_SECONDS: Final = 10.0

# The most that a webhook configuration can ask for (timeoutSeconds). A client that asks for more is not an API server.
MAX_SECONDS: Final = 30.0
# The API server writes "30s", Go's longest duration of half a minute is "29.999999999s". To read digits costs time with
# the square of their number: 8,000 took a second.
_MAX_CHARACTERS: Final = 16

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")  # Go takes both signs for micro
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@lru_cache(maxsize=16)  # it is the same in all calls of one webhook configuration
def deadline_seconds(timeout: str | None) -> float:
    """Seconds in `timeout` ("10s", "500ms"), at most 30; the default when there is none, or none that can be meant."""
    if not timeout or len(timeout) > _MAX_CHARACTERS or _PART.sub("", timeout):
        return DEFAULT_SECONDS
    return min(MAX_SECONDS, sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(timeout)))
