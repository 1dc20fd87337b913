"""How long the API server waits for an answer: the `timeout` parameter of its request, a Go duration."""

import re
from functools import lru_cache
from typing import Final

# What the API server waits when a webhook configuration does not say; it says so in the parameter, too.
DEFAULT_SECONDS: Final = 10.0

_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")  # Go takes both signs for micro
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@lru_cache(maxsize=16)  # it is the same in all calls of one webhook configuration
def deadline_seconds(timeout: str | None) -> float:
    """Seconds in `timeout` ("10s", "1m30s", "500ms"); the default when there is none or it is no duration."""
    if not timeout or _PART.sub("", timeout):
        return DEFAULT_SECONDS
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(timeout))
