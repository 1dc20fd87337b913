"""What a check found: a level, a sentence, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SHOWN: Final = 5
"""How many names a finding lists."""


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """The service works, but not as well as it could, or something could not be checked."""
    FAIL = "fail"
    """The service does not do its work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the result."""

    level: Level
    text: str
    cure: str = ""
    """What to do; empty if all is well."""


def ok(text: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, text)


def warn(text: str, cure: str) -> Finding:
    """A warning."""
    return Finding(Level.WARN, text, cure)


def fail(text: str, cure: str) -> Finding:
    """A failure."""
    return Finding(Level.FAIL, text, cure)


def some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
