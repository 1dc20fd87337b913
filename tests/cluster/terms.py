"""The terms of all leaders, and when each assigned NUMA nodes, from the replicas' logs; and where none was certain.

All replicas use the clock of one machine, so their times can be compared: a later leader must not have begun before an
earlier one assigned its last NUMA nodes.
"""

from __future__ import annotations

import json
import re
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
    """When the last binding was assigned its NUMA nodes; empty if none was."""
    grants: int = 0


def terms(logs: Iterable[Path]) -> list[LedTerm]:
    """All terms, by their epochs."""
    return sorted((term for log in logs for term in _terms_of(log)), key=lambda term: term.epoch)


def overlapping(led: list[LedTerm]) -> list[tuple[LedTerm, LedTerm]]:
    """Pairs of terms: the earlier one still assigned NUMA nodes after the later one had begun."""
    return [
        (earlier, later)
        for number, earlier in enumerate(led)
        for later in led[number + 1 :]
        if earlier.last_assumed >= later.began
    ]


def uncertain_nodes(logs: Iterable[Path]) -> set[str]:
    """The nodes to which pods were bound whose NUMA nodes no replica was certain of.

    There was no leader to review the binding of a placed pod, or a new one did not know all yet. These pods, and those
    that were bound to the node about then, have no allocation until an exporter has counted them.
    """
    messages = (str(line.get("message", "")) for log in logs for line in _lines(log) if line["event"] == "review")
    return {found["node"] for message in messages if (found := _UNCERTAIN.match(message)) is not None}


_UNCERTAIN = re.compile(r"(?:placed on|bound to) (?P<node>\S+?)(?: before|, NUMA nodes not certain yet)")


def _terms_of(log: Path) -> Iterator[LedTerm]:
    """The terms in the log of a replica. The log continues when its process is restarted."""
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
    """Whether a binding was assigned NUMA nodes. A follower only allows bindings to the node assigned before."""
    return line["event"] == "review" and str(line.get("message", "")).startswith("bound to ")


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    """The complete lines; the last line of a killed process may be incomplete."""
    for text in log.read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and "event" in line:
            yield line
