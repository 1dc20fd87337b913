"""Kubernetes' timestamps as seconds: RFC 3339 in UTC, as metav1.Time and MicroTime are written."""

import re
from calendar import timegm
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

# Fractions are truncated, as metav1.Time does when it is written.
_TIMESTAMP: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?Z", re.ASCII)

# With nine digits of a fraction. A longer text is no timestamp of Kubernetes, and would fill the cache.
_LONGEST: Final = len("2006-01-02T15:04:05.000000000Z")


def epoch_seconds(text: object) -> int | None:
    """Whole seconds since the epoch; None for anything that is not a timestamp."""
    return _epoch_seconds(text) if isinstance(text, str) and len(text) <= _LONGEST else None


def utc(seconds: int) -> str:
    """Seconds since the epoch as such a timestamp."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# The objects of one moment have equal times: those of a rollout, and all that exporters write in a second.
@lru_cache(maxsize=8192)
def _epoch_seconds(text: str) -> int | None:
    match = _TIMESTAMP.fullmatch(text)
    return timegm(tuple(map(int, match.groups()))) if match else None
