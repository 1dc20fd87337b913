"""YAML as kubectl reads and writes it.

kubectl turns YAML into JSON first. So dates and `1:30` are strings, `1e3` is a number, keys are strings, a key that
stands twice is an error, anchors are written out. On the way out every string that some YAML reader could take for a
number or a boolean is quoted: `"1e3"` and `"y"` must come back as the strings they are.
Source: sigs.k8s.io/yaml (YAMLToJSON) and its goyaml.v2 (resolve.go).
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import yaml

# The API server takes objects of up to 3 MB, which hold fewer values; anchors can promise more than any memory holds.
_MOST_VALUES = 1 << 20

# kubectl's own limit. libyaml's composer recurses on the C stack and would crash somewhere beyond twice that.
_DEEPEST = 10_000
_BRACKETS = re.compile(r"[\[\]{}]")
_DEEPLY_INDENTED = re.compile(rf"^[-? \t]{{{_DEEPEST}}}", re.MULTILINE)

_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
# What PyYAML writes plain although goyaml would not read it as a string.
_TAKEN_FOR_ANOTHER_TYPE = re.compile(r"[-+]?[0-9._]+(?:[eE][-+]?[0-9]+)?|[-+]?0[xXoObB][0-9a-fA-F_]+|[yYnN]")


class YAMLFault(Exception):  # noqa: N818 - it is the text's fault
    """Text that is no YAML, or YAML that is no JSON; `line` from 1, None when unknown."""

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class _Loader(yaml.CSafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) < len(node.value):
            _refuse_duplicates(node)
        return mapping


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """First character -> what a plain scalar may be: PyYAML's table with goyaml's numbers and without dates."""
    kept = {"tag:yaml.org,2002:null", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:merge"}
    table = {
        first: [(tag, pattern) for tag, pattern in entries if tag in kept]
        for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for first in "-+0123456789.":
        numbers = [("tag:yaml.org,2002:int", _INT), ("tag:yaml.org,2002:float", _FLOAT)]
        table[first] = [*table.get(first, ()), *numbers]
    return table


_Loader.yaml_implicit_resolvers = _resolvers()


def _refuse_duplicates(node: yaml.MappingNode) -> None:
    # Keys that a merge (`<<`) brought in were written elsewhere, and may be overridden.
    written = [key for key, _ in node.value if node.start_mark.index <= key.start_mark.index < node.end_mark.index]
    seen = set()
    for key in written:
        if key.value in seen:
            raise YAMLFault(key.start_mark.line + 1, f"the key {key.value!r} stands twice in one object")
        seen.add(key.value)


def load_all(text: str) -> Iterator[tuple[int, Any]]:
    """The documents, each with the line it starts on. Raises YAMLFault."""
    if _may_be_too_deep(text):
        raise YAMLFault(None, "nested too deeply")
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node.start_mark.line + 1, loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise YAMLFault(mark.line + 1 if mark else None, reason) from error
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise YAMLFault(line, f"the character U+{error.character:04X} is not allowed in YAML") from error
    except RecursionError as error:
        raise YAMLFault(None, "nested too deeply") from error
    except ValueError as error:
        raise YAMLFault(None, str(error)) from error


def _may_be_too_deep(text: str) -> bool:
    """Whether the text could be nested more than _DEEPEST levels; brackets within strings are counted, too."""
    if text.count("[") + text.count("{") > _DEEPEST:
        steps = accumulate(1 if match[0] in "[{" else -1 for match in _BRACKETS.finditer(text))
        if max(steps) > _DEEPEST:
            return True
    return _DEEPLY_INDENTED.search(text) is not None


def plain(value: Any) -> Any:
    """A copy as JSON has it: string keys, no shared parts. Raises YAMLFault for what JSON cannot express."""
    try:
        return _plain(value, (), [0])
    except RecursionError as error:
        raise YAMLFault(None, "nested too deeply") from error


def _plain(value: Any, path: tuple[int, ...], count: list[int]) -> Any:
    count[0] += 1
    if count[0] > _MOST_VALUES:
        raise YAMLFault(None, "its anchors stand for too many values")
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and value - value == 0:  # neither infinite nor NaN
        return value
    if id(value) in path:
        raise YAMLFault(None, "an anchor stands inside itself")
    path = (*path, id(value))
    if isinstance(value, Mapping):
        return {_key(key): _plain(held, path, count) for key, held in value.items()}
    if isinstance(value, list):
        return [_plain(held, path, count) for held in value]
    raise YAMLFault(None, f"the value {value!r} has no counterpart in JSON")


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (str, int, float)):
        return str(key)
    raise YAMLFault(None, f"the key {key!r} is not a string")


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "'" if _TAKEN_FOR_ANOTHER_TYPE.fullmatch(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_all(values: list[Any]) -> str:
    """The values as YAML documents separated by `---`."""
    # One line per string: a folded annotation is hard to read and to compare.
    return yaml.dump_all(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20)


def line_of(text: str, document: int, path: str) -> int | None:
    """The line of a field like `spec.containers[0].resources`, or of the nearest thing above it that is there."""
    if _may_be_too_deep(text):
        return None
    try:
        nodes = list(yaml.compose_all(text, Loader=_Loader))
    except (yaml.YAMLError, RecursionError):
        return None
    if document > len(nodes):
        return None
    node, line = nodes[document - 1], nodes[document - 1].start_mark.line + 1
    while step := _step(node, path):
        node, line, path = step
    return line


def _step(node: Any, path: str) -> tuple[Any, int, str] | None:
    """One step down the path: the node below, its line, the rest of the path. None when there is nothing to step on."""
    if isinstance(node, yaml.SequenceNode) and (match := re.match(r"\[(\d+)\]", path)):
        position = int(match[1])
        if position < len(node.value):
            below = node.value[position]
            return below, below.start_mark.line + 1, path[match.end() :]
    if isinstance(node, yaml.MappingNode):
        path = path.removeprefix(".")
        # Keys may hold dots (`requests.nvidia.com/gpu`), brackets keys (`annotations[a.b/c]`): the longest wins.
        for key, below in sorted(node.value, key=lambda pair: -len(pair[0].value)):
            for spelling in (key.value, f"[{key.value}]", f'["{key.value}"]', f"['{key.value}']"):
                rest = path.removeprefix(spelling)
                if spelling and rest != path and rest[:1] in {"", ".", "["}:
                    return below, key.start_mark.line + 1, rest
    return None
