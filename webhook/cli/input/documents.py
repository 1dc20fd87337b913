"""Kubernetes objects from files: YAML or JSON documents, directories, stdin, and Lists as kubectl prints them.

Every fault is an InputError that names the file, the document, the line and the field.
"""

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from webhook.cli.input.object_schema import LIST, OBJECT, TEXT, Schema, faults
from webhook.cli.input.yaml_text import YAMLFault, line_of, load_all
from webhook.model.raw import Raw

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"

# A JSON object or list at the start, also after the line with which a stream of YAML documents begins.
_JSON = re.compile(r"\s*(?:(?<![^\n])---[ \t\r]*\n\s*)?[{\[]")
# What may stand between two JSON values: white space, and one line that separates YAML documents.
_BETWEEN = re.compile(r"[ \t\r\n]*(?:(?<![^\n])---[ \t\r]*(?:\n[ \t\r\n]*|\Z))?")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

# Finding a field's line takes a second parse at about 1 MB/s; in larger files messages name the document's line only.
_QUICKLY_SEARCHED = 8 << 20


class InputError(Exception):
    """The input cannot be read; the message says where and why. Exit code 2."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text, and its name in messages."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Item:
    """One Kubernetes object and its position.

    `document` and `line` count from 1; `prefix` is the object's path inside a List ("items[3]."), else "".
    """

    source: Source
    document: int
    line: int
    prefix: str
    body: Raw = field(repr=False)

    @property
    def kind(self) -> str:
        """Pod, Node, ..."""
        return str(self.body["kind"])

    @property
    def api_version(self) -> str:
        """Group and version as in the object: v1, apps/v1, ..."""
        return str(self.body["apiVersion"])

    @property
    def group(self) -> str:
        """The API group, "" for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def namespace(self) -> str:
        """The namespace, "" if it has none."""
        return str(self.body["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        """The name; of a generated name its prefix."""
        metadata = self.body["metadata"]
        return str(metadata.get("name") or metadata["generateName"])

    @property
    def place(self) -> str:
        """File, document, line and position in a List, for messages."""
        position = f", {self.prefix.removesuffix('.')}" if self.prefix else ""
        return f"{self.source.name}: document {self.document}, line {self.line}{position}"

    def fault(self, path: str, message: str) -> InputError:
        """An error about a field of this object."""
        path, line = self.prefix + path, self.line
        if len(self.source.text) < _QUICKLY_SEARCHED:
            line = line_of(self.source.text, self.document, path) or line
        return InputError(f"{self.source.name}: document {self.document}, line {line}: {path}: {message}")

    def check(self, value: object, schema: Schema, path: str = "") -> None:
        """Raise InputError if the body, or the value at the path in it, does not have this shape."""
        for fault in faults(value, schema, path):
            raise self.fault(fault.path, fault.message)


def read(paths: Iterable[str]) -> Iterator[Item]:
    """The objects of all files, in order. `-` is stdin; a directory means its YAML and JSON files.

    Raises InputError, also for a file without any object.
    """
    for path in paths:
        for source in _sources(path):
            items = [item for document in _documents(source) for item in document]
            if not items:
                raise InputError(f"{source.name}: there is no Kubernetes object in it")
            yield from items


def twice(items: Iterable[Item]) -> Iterator[str]:
    """A warning for each object with the same name as an earlier one."""
    first: dict[tuple[str, str, str, str], Item] = {}
    for item in items:
        known = first.setdefault((item.group, item.kind, item.namespace, item.name), item)
        if known is not item and item.body["metadata"].get("name"):
            name = f"{item.kind} {item.name}"
            yield f"{item.place}: {name} appears twice, first in {known.place}; each is judged by itself"


def _sources(path: str) -> Iterator[Source]:
    try:
        if path == STDIN:
            yield _decoded("stdin", sys.stdin.buffer.read())
        elif Path(path).is_dir():
            files = sorted(file for file in Path(path).iterdir() if file.suffix in SUFFIXES)
            if not files:
                raise InputError(f"{path}: no file in this directory ends in {', '.join(SUFFIXES)}")
            for file in files:
                yield _decoded(str(file), file.read_bytes())
        else:
            yield _decoded(path, Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def _decoded(name: str, content: bytes) -> Source:
    try:
        return Source(name, content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}: line {line}: byte 0x{content[error.start]:02x} is not UTF-8 text") from error


def _documents(source: Source) -> Iterator[list[Item]]:
    """The objects of each document. Empty documents count, but have no objects."""
    for number, (line, body) in enumerate(_values(source), start=1):
        if body is not None:
            yield list(_objects(Item(source, number, line, "", body)))


def _values(source: Source) -> Iterator[tuple[int, Any]]:
    """The documents, each with its first line."""
    if _JSON.match(source.text):
        try:
            yield from _json_values(source.text)
        except ValueError as not_json:
            # It can still be YAML's flow style: {kind: Pod}.
            try:
                yield from list(load_all(source.text))
            except YAMLFault:
                raise InputError(f"{source.name}: {_reason(not_json)}") from not_json
        except RecursionError as error:
            raise InputError(f"{source.name}: nested too deeply") from error
        return
    try:
        yield from load_all(source.text)
    except YAMLFault as fault:
        place = f"line {fault.line}: " if fault.line else ""
        raise InputError(f"{source.name}: {place}not YAML: {fault.reason}") from fault


def _json_values(text: str) -> list[tuple[int, Any]]:
    """One or more JSON values in a row, or a stream of YAML documents that are JSON."""
    # In YAML, a key cannot appear twice in one object.
    unique = _unique if "\n---" in text or text.startswith("---") else None
    decoder = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, object_pairs_hook=unique)
    found = []
    line, counted, position = 1, 0, _BETWEEN.match(text).end()  # type: ignore[union-attr] # it matches everywhere
    while position < len(text):
        body, end = decoder.raw_decode(text, position)
        if _SURROGATE.search(text, position, end):
            _check_surrogates(body)
        line += text.count("\n", counted, position)
        counted = position
        found.append((line, body))
        position = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice!r} appears twice in one object")
    return body


def _check_surrogates(body: Any) -> None:
    # JSON can spell an unpaired surrogate, but it is not a character and could not be printed.
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{error.object[error.start]!r} is half of a surrogate pair") from error


def _finite(text: str) -> float:
    # Python would accept NaN, Infinity, and 1e999 as infinity; JSON has none of them.
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a JSON number")
    return number


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}: not JSON: {error.msg}"
    return f"not JSON: {error}"


def _objects(item: Item) -> Iterator[Item]:
    """The object itself, or the items of a List."""
    body = item.body
    if not isinstance(body, Mapping):
        raise InputError(
            f"{item.source.name}: document {item.document}, line {item.line}: {_place(item)}a Kubernetes object "
            f"(apiVersion, kind, metadata, ...) is needed here, not {_kind_of_value(body)}"
        )
    item.check(body, {"apiVersion!": TEXT, "kind!": TEXT})
    if item.kind.endswith("List") and "items" in body:
        item.check(body, {"items": LIST})
        for position, below in enumerate(body["items"] or ()):
            yield from _objects(replace(item, prefix=f"{item.prefix}items[{position}].", body=below))
        return
    item.check(body, OBJECT)
    if not (body["metadata"].get("name") or body["metadata"].get("generateName")):
        raise item.fault("metadata.name", "This is missing.")
    yield item


def _place(item: Item) -> str:
    return f"{item.prefix.removesuffix('.')}: " if item.prefix else ""


def _kind_of_value(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}
    return kinds.get(type(value), "nothing" if value is None else type(value).__name__)
