"""Views as JSON values: an object for each record, its fields in camelCase. docs/cli.md lists them."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any


def as_json(view: Any) -> Any:
    """The JSON value of a record, or of a collection of them."""
    if is_dataclass(view):
        kind: Any = type(view)
        return {key: as_json(getattr(view, name)) for name, key in _keys(kind)}
    if isinstance(view, Mapping):
        return {str(key): as_json(value) for key, value in view.items()}
    if isinstance(view, (tuple, list)):
        return [as_json(value) for value in view]
    return view.value if isinstance(view, Enum) else view


@lru_cache(maxsize=64)
def _keys(record: Any) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, _camel_case(field.name)) for field in fields(record))


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
