"""YAML as kubectl reads and writes it.

kubectl converts YAML to JSON first. So dates and `1:30` are strings, `1e3` is a number, keys are strings, a duplicate
key is an error, and anchors are expanded. When written, every string that some YAML reader could take for a number or a
boolean is quoted: `"1e3"` and `"y"` must stay strings.

Values are built from libyaml's events without PyYAML's node graph. This is five times as fast, so a snapshot of 5,000
nodes is readable, and nothing recurses. The graph, which keeps marks, is only built to name the line of a field.
Source: sigs.k8s.io/yaml (YAMLToJSON) and its goyaml.v2 (resolve.go).
"""

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.composer import Composer
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

# The API server takes objects of up to 3 MB, which hold fewer values; anchors can expand to more than fits in memory.
_MOST_COPIED: Final = 1 << 20

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# Strings that PyYAML writes plain although goyaml would not read them as strings.
_TAKEN_FOR_ANOTHER_TYPE = re.compile(r"[-+]?[0-9._]+(?:[eE][-+]?[0-9]+)?|[-+]?0[xXoObB][0-9a-fA-F_]+|[yYnN]")

_TAG = "tag:yaml.org,2002:"
_TEXT_TAG = _TAG + "str"


class YAMLFault(Exception):  # noqa: N818 - it is the text's fault
    """Text that is not YAML, or YAML that is not JSON; `line` from 1, None if unknown."""

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def load_all(text: str) -> Iterator[tuple[int, Any]]:
    """The documents as JSON values, each with its first line. Raises YAMLFault."""
    events = _events(text)
    for event in events:
        if isinstance(event, DocumentStartEvent):
            first = next(events)
            yield first.start_mark.line + 1, _value(first, events)


class _MarkedLoader(Composer, yaml.CSafeLoader):
    """Nodes with start marks. In Python, because libyaml's own composer crashes on 60,000 open brackets."""

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)


def line_of(text: str, document: int, path: str) -> int | None:
    """The line of a field like `spec.containers[0].resources`, or of its nearest existing parent."""
    loader = _MarkedLoader(text)
    try:
        while loader.check_node():
            document -= 1
            node = loader.get_node()
            if node and not document:
                return _descend(node, _dotted(path), node.start_mark.line + 1)
    except (yaml.YAMLError, RecursionError):
        pass
    return None


def _descend(node: Any, path: str, line: int) -> int:
    for step, first, below in _entries(node):
        if f"{path}.".startswith(f"{step}."):
            return _descend(below, path[len(step) + 1 :], first.start_mark.line + 1)
    return line


def _entries(node: Any) -> list[tuple[str, Any, Any]]:
    """For each key or item of a node: its path step, the node with its position, and the value."""
    if isinstance(node, yaml.SequenceNode):
        return [(str(position), item, item) for position, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return [(_dotted(key.value), key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
    return []


def _dotted(path: str) -> str:
    """A path with dots only: keys may contain dots, brackets may contain keys (`annotations[a.b/c]`)."""
    return path.replace("[", ".").replace("]", "")


def _events(text: str) -> Iterator[Any]:
    """The events of libyaml. Raises YAMLFault."""
    try:
        yield from yaml.parse(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise YAMLFault(mark.line + 1 if mark else None, reason) from error
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise YAMLFault(line, f"the character U+{error.character:04X} is not allowed in YAML") from error


def _value(first: Any, events: Iterator[Any]) -> Any:
    """The value that begins with the event `first`.

    Open containers are on a stack. An anchor is only known after its value is complete, so no value contains itself.
    """
    anchors = _Anchors()
    stack: list[_Mapping | _Sequence] = []
    event = first
    while True:
        kind = type(event)
        if kind is MappingStartEvent or kind is SequenceStartEvent:
            stack.append(_Mapping(event) if kind is MappingStartEvent else _Sequence(event))
        else:
            if kind is ScalarEvent:
                value, anchor = _scalar(event), event.anchor
            elif kind is AliasEvent:
                value, anchor = anchors.copy(event), None
            else:
                container = stack.pop()
                value, anchor = container.closed(), container.anchor
            if anchor:
                anchors.known[anchor] = value
            if not stack:
                return value
            stack[-1].add(value, event)
        event = next(events)


class _Sequence:
    """A list under construction."""

    __slots__ = ("anchor", "items")

    def __init__(self, start: Any) -> None:
        self.anchor: str | None = start.anchor
        _check_tag(start, "seq")
        self.items: list[Any] = []

    def add(self, value: Any, _: Any) -> None:
        self.items.append(value)

    def closed(self) -> list[Any]:
        return self.items


class _Mapping:
    """An object under construction: keys and values come in turn."""

    __slots__ = ("anchor", "items", "key", "merged", "merging")

    def __init__(self, start: Any) -> None:
        self.anchor: str | None = start.anchor
        _check_tag(start, "map")
        self.items: dict[str, Any] = {}
        self.merged: list[Any] = []
        self.key: str | None = None
        self.merging = False

    def add(self, value: Any, event: Any) -> None:
        if self.key is None:
            self.key = _key(value, event)
            self.merging = self.key == "<<" and type(event) is ScalarEvent and event.implicit[0]
            if self.key in self.items:
                raise _fault(event, f"the key {self.key!r} appears twice in one object")
            return
        if self.merging:
            parts = value if isinstance(value, list) else [value]
            if not all(isinstance(part, dict) for part in parts):
                raise _fault(event, "<< takes an object or a list of objects")
            self.merged += parts
        else:
            self.items[self.key] = value
        self.key = None

    def closed(self) -> dict[str, Any]:
        if not self.merged:
            return self.items
        # Keys written here override merged ones, and earlier merges override later ones.
        return {key: value for part in (*reversed(self.merged), self.items) for key, value in part.items()}


class _Anchors:
    """The values of anchors. Each alias gets its own copy, as if it were written out."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self._copied = 0

    def copy(self, alias: Any) -> Any:
        if alias.anchor not in self.known:
            raise _fault(alias, f"the alias *{alias.anchor} has no anchor before it, or stands inside it")
        return self._copy(self.known[alias.anchor], alias)

    def _copy(self, value: Any, alias: Any) -> Any:
        self._copied += 1
        if self._copied > _MOST_COPIED:
            raise _fault(alias, "its anchors stand for too many values")
        if isinstance(value, dict):
            return {key: self._copy(held, alias) for key, held in value.items()}
        if isinstance(value, list):
            return [self._copy(held, alias) for held in value]
        return value


def _key(value: Any, event: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    raise _fault(event, "a key must be a string")


def _scalar(event: Any) -> Any:
    tag, text = event.tag, event.value
    if tag in {"!", _TEXT_TAG} or (tag is None and not event.implicit[0]):
        return text
    try:
        value = _resolved(text)
    except ValueError as error:
        raise _fault(event, str(error)) from error
    if tag is not None and not isinstance(value, _TYPES.get(tag, ())):
        raise _fault(event, f"the tag {tag.replace(_TAG, '!!')} is not known in JSON, or does not go with {text!r}")
    return value


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    _TAG + "int": (int,),
    _TAG + "float": (int, float),
    _TAG + "bool": (bool,),
    _TAG + "null": (type(None),),
}


# A cluster's objects repeat the same names, labels and amounts.
@lru_cache(maxsize=1 << 16)
def _resolved(text: str) -> Any:
    """The value of an unquoted scalar."""
    first = text[:1]
    if first.isdigit() or first in {"-", "+", "."}:
        if _INT.fullmatch(text):
            digits = text.replace("_", "")
            return int(digits, 0 if "x" in text or "b" in text else 8 if digits.lstrip("+-")[0] == "0" else 10)
        if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
            return number
        if _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text):
            raise ValueError(f"{text} is not a number in JSON")
        return text
    if text in _NULL:
        return None
    return True if text in _TRUE else False if text in _FALSE else text


def _check_tag(start: Any, kind: str) -> None:
    if start.tag not in {None, "!", _TAG + kind}:
        raise _fault(start, f"the tag {start.tag.replace(_TAG, '!!')} is not known in JSON")


def _fault(event: Any, reason: str) -> YAMLFault:
    return YAMLFault(event.start_mark.line + 1, reason)


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "'" if _TAKEN_FOR_ANOTHER_TYPE.fullmatch(text) else "|" if "\n" in text else None
    return dumper.represent_scalar(_TEXT_TAG, text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_all(values: list[Any]) -> str:
    """The values as YAML documents separated by `---`."""
    # One line per string: a folded annotation is hard to read and to compare.
    return yaml.dump_all(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20)
