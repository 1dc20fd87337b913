"""Who led when and what was given out meanwhile, as the replicas' own logs tell it.

All replicas write their times by one machine's clock, so the terms can be put side by side: a later leader must not
have begun before the last NUMA nodes of an earlier one were given out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


@dataclass
class LedTerm:
    """One term of one process; times as ISO 8601 in UTC, which sort as text."""

    replica: str
    epoch: int
    began: str
    last_assumed: str = ""
    """When the last binding was given its NUMA nodes; empty when none was."""
    grants: int = 0


def terms(logs: Iterable[Path]) -> list[LedTerm]:
    """All terms, by their epochs."""
    return sorted((term for log in logs for term in _terms_of(log)), key=lambda term: term.epoch)


def overlapping(led: list[LedTerm]) -> list[tuple[LedTerm, LedTerm]]:
    """Pairs of which the later one had begun when the earlier one still gave something out."""
    return [
        (earlier, later)
        for number, earlier in enumerate(led)
        for later in led[number + 1 :]
        if earlier.last_assumed >= later.began
    ]


def _terms_of(log: Path) -> Iterator[LedTerm]:
    """The log of a replica goes on when its process is started again."""
    term: LedTerm | None = None
    for line in _lines(log):
        if line["event"] == "leader.started":
            if term is not None:
                yield term
            term = LedTerm(log.stem, line["epoch"], line["timestamp"])
        elif _gives_out(line):
            assert term is not None, f"{log.stem} gave out NUMA nodes before it ever led: {line}"
            term.last_assumed = line["timestamp"]
            term.grants += 1
    if term is not None:
        yield term


def _gives_out(line: dict[str, Any]) -> bool:
    """Whether a binding was given NUMA nodes; a follower only lets a placed pod go where it was placed."""
    return line["event"] == "review" and str(line.get("message", "")).startswith("bound to ")


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    """The whole lines; the last one of a process that was killed may be broken."""
    for text in log.read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and "event" in line:
            yield line
