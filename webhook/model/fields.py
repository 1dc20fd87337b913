"""Fields of an object that a person may have written by hand: absent and null are empty, the wrong shape is a fault."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from webhook.model.errors import UserError
from webhook.model.quoted import quoted

NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})


# Python reads no number of more than 4300 digits; none that is meant has more than these.
_DIGITS: Final = 18


def whole_number(text: str) -> int | None:
    """The number that the digits 0-9 write; None for anything else, and beyond what fits int64."""
    return int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else None


def mapping(raw: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    """The object in field `name`; `path` is the field's own; raises UserError."""
    value = raw.get(name)
    if not value:
        return NO_FIELDS
    if not isinstance(value, dict):
        raise UserError(path, f"This must be an object, not {quoted(value)}.")
    return value


def mappings(raw: Mapping[str, Any], name: str, path: str) -> Sequence[Mapping[str, Any]]:
    """The list of objects in field `name`; `path` is the field's own; raises UserError."""
    value = raw.get(name)
    if not value:
        return ()
    if not isinstance(value, list):
        raise UserError(path, f"This must be a list, not {quoted(value)}.")
    for index, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise UserError(f"{path}[{index}]", f"This must be an object, not {quoted(entry)}.")
    return value
