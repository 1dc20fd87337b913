"""How long the API server waits for an answer: the `timeout` parameter of its request, a Go duration."""

import re
from functools import lru_cache
from typing import Final

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
