"""On which line of a YAML or JSON text a field stands: looked for only when a message has to name it."""

from collections.abc import Iterator
from typing import Any

from yaml.events import (
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from webhook.cli.yaml_text import YAMLFault, events_of


def line_of(text: str, document: int, path: str) -> int | None:
    """The line of a field like `spec.containers[0].resources`, or of the nearest thing above it that is there."""
    try:
        events = events_of(text)
        for event in events:
            document -= isinstance(event, DocumentStartEvent)
            if document == 0:
                return _descend(next(events), events, path)
    except YAMLFault:
        pass
    return None


def _descend(event: Any, events: Iterator[Any], path: str) -> int:
    """The line that the path leads to from the value that begins with `event`."""
    line: int = event.start_mark.line + 1
    while path and isinstance(event, CollectionStartEvent):
        for place, first, below in _entries(event, events):
            if (rest := _after(path, place)) is not None:
                line, event, path = first.start_mark.line + 1, below, rest
                break
            _pass_over(below, events)
        else:
            break
    return line


def _entries(start: Any, events: Iterator[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Of an open container: each key or position, the event it begins with, the event its value begins with."""
    position = 0
    while not isinstance(first := next(events), CollectionEndEvent):
        if isinstance(start, SequenceStartEvent):
            yield f"[{position}]", first, first
            position += 1
        else:
            below = next(events) if isinstance(first, ScalarEvent) else first
            yield getattr(first, "value", ""), first, below


def _pass_over(event: Any, events: Iterator[Any]) -> None:
    depth = int(isinstance(event, CollectionStartEvent))
    while depth:
        event = next(events)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)


def _after(path: str, place: str) -> str | None:
    """What is left of the path after this place; None when the path does not lead there.

    Keys may hold dots (`requests.nvidia.com/gpu`), brackets may hold keys (`annotations[a.b/c]`).
    """
    path = path.removeprefix(".")
    for spelling in (place, f"[{place}]"):
        rest = path.removeprefix(spelling)
        if rest != path and rest[:1] in {"", ".", "["}:
            return rest
    return None
