"""Kubernetes' timestamps as seconds: RFC 3339 in UTC, as metav1.Time and MicroTime are written."""

import re
from calendar import timegm
from typing import Final

# Fractions are truncated, as metav1.Time does when it is written.
_TIMESTAMP: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?Z", re.ASCII)


def epoch_seconds(text: object) -> int | None:
    """Whole seconds since the epoch; None for anything that is not a timestamp."""
    match = _TIMESTAMP.fullmatch(text) if isinstance(text, str) else None
    return timegm(tuple(map(int, match.groups()))) if match else None
