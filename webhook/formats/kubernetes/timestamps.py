"""Kubernetes' timestamps as seconds: RFC 3339 in UTC, as metav1.Time and MicroTime are written."""

import re
from calendar import timegm
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
    days, second = divmod(seconds, 86_400)
    # The era of 400 years since 0000-03-01, with the leap day at a year's end. Source: Howard Hinnant,
    # chrono-Compatible Low-Level Date Algorithms (civil_from_days).
    era, day_of_era = divmod(days + 719_468, 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    months = (5 * day_of_year + 2) // 153  # since March
    day, month = day_of_year - (153 * months + 2) // 5 + 1, (months + 2) % 12 + 1
    year += era * 400 + (month <= 2)
    return f"{year:04}-{month:02}-{day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


# The objects of one moment have equal times: those of a rollout, and all that exporters write in a second.
@lru_cache(maxsize=8192)
def _epoch_seconds(text: str) -> int | None:
    match = _TIMESTAMP.fullmatch(text)
    return timegm(tuple(map(int, match.groups()))) if match else None
