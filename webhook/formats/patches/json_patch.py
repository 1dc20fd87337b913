"""JSON patches, built from operations that are applied to the object here before they are sent.

A patch that the API server cannot apply is an HTTP 500 for the user, even with the failure policy Ignore. So every
operation is applied here first.

Only three operations are used: `add`, `replace`, `remove`.
Source: RFC 6902 sections 4.1 to 4.3; RFC 6901 section 3 (escaping) and section 4 (list positions).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webhook.model.errors import Malfunction

# An operation as the API server reads it: {"op": ..., "path": ..., "value": ...}.
Operation = dict[str, Any]

# A path from the root, before it is written as a pointer: keys of objects, positions in lists.
Tokens = tuple[str | int, ...]

# The position after a list's last item.
END = "-"

_KNOWN = frozenset({"add", "replace", "remove"})

_POSITION = re.compile(r"0|[1-9][0-9]*")


class PatchError(Malfunction):
    """A patch of ours cannot be applied, or would make a change that it must not make."""


class Patch:
    """A patch under construction: the operations so far, and the resulting document."""

    def __init__(self, document: Any) -> None:
        self.operations: list[Operation] = []
        self.document = document

    def put(self, path: Tokens, value: object) -> None:
        """Set `path` to `value` by one `add`, which includes missing parents.

        A parent is missing if it is absent or null (`affinity: null`). Existing parents do not change.
        """
        held = self.document
        for depth, token in enumerate(path[:-1]):
            held = held.get(token) if isinstance(held, dict | Mapping) else held[token]
            if held is None:
                path, value = path[: depth + 1], _nested(path[depth + 1 :], value)
                break
        self._do(path, {"op": "add", "path": pointer(path), "value": value})

    def replace(self, path: Tokens, value: object) -> None:
        """Replace the value at `path`."""
        self._do(path, {"op": "replace", "path": pointer(path), "value": value})

    def remove(self, path: Tokens) -> None:
        """Remove the value at `path`."""
        self._do(path, {"op": "remove", "path": pointer(path)})

    def _do(self, path: Tokens, operation: Operation) -> None:
        if not path:
            raise PatchError(f"{operation['op']} of the whole document is not among what a patch of ours may do")
        self.document = _applied(self.document, [str(token) for token in path], operation)
        self.operations.append(operation)


def pointer(tokens: Iterable[str | int]) -> str:
    """The JSON pointer of a path: one slash before each token, `~` and `/` inside a token escaped."""
    return "".join([f"/{_escaped(str(token))}" for token in tokens])


def _escaped(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def _nested(path: Tokens, value: object) -> object:
    for token in reversed(path):
        value = [value] if token == END else {token: value}
    return value


def apply(document: Any, operations: Iterable[Operation]) -> Any:
    """The document after the operations.

    The argument is not changed: objects on the path of a change are copied, the rest is shared with the result.
    """
    for operation in operations:
        tokens = _split(operation["path"])
        if not tokens or operation["op"] not in _KNOWN:
            raise PatchError(f"{operation['op']} at {operation['path']!r} is not among what a patch of ours may do")
        document = _applied(document, tokens, operation)
    return document


def _split(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise PatchError(f"{path!r} is no JSON pointer: it must start with a slash")
    # "~1" first: the reverse order would turn "~01" (an escaped "~1") into a slash.
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _applied(held: Any, tokens: Sequence[str], operation: Operation) -> Any:
    token, *below = tokens
    if isinstance(held, dict | Mapping):  # nearly always a dict, which is found out faster
        return _applied_to_object(held, token, below, operation)
    if isinstance(held, list):
        return _applied_to_list(held, token, below, operation)
    raise PatchError(f"{operation['path']}: {token!r} stands below a {type(held).__name__}, not an object or a list")


def _applied_to_object(
    held: Mapping[str, Any], token: str, below: Sequence[str], operation: Operation
) -> dict[str, Any]:
    changed = dict(held)
    if token not in held and (below or operation["op"] != "add"):
        raise PatchError(f"{operation['path']}: there is no {token!r} to {operation['op']} at or below")
    if below:
        changed[token] = _applied(held[token], below, operation)
    elif operation["op"] == "remove":
        del changed[token]
    else:
        changed[token] = operation["value"]
    return changed


def _applied_to_list(held: list[Any], token: str, below: Sequence[str], operation: Operation) -> list[Any]:
    adds = operation["op"] == "add" and not below
    if adds and token == END:
        return [*held, operation["value"]]
    # An insertion may be at the end; other operations need an existing item.
    if not _POSITION.fullmatch(token) or int(token) >= len(held) + adds:
        raise PatchError(f"{operation['path']}: {token!r} is no position in a list of {len(held)}")
    position, changed = int(token), list(held)
    if below:
        changed[position] = _applied(held[position], below, operation)
    elif adds:
        changed.insert(position, operation["value"])
    elif operation["op"] == "remove":
        del changed[position]
    else:
        changed[position] = operation["value"]
    return changed
