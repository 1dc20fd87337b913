"""Fields that a user may write by hand: absent and null count as empty, a wrong type is a fault."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.raw import Raw
from webhook.model.wording import quoted


def is_on(annotations: Mapping[str, str], key: str, path: str = "metadata.annotations") -> bool:
    """Whether the annotation is "true"; absent means false. Raises UserError; `path` is that of the annotations."""
    text = annotations.get(key, "false")
    if text not in {"true", "false"}:
        raise UserError(f"{path}[{key}]", f'"{shortened(str(text))}" is not allowed here. Write "true" or "false".')
    return text == "true"


NO_FIELDS: Final[Raw] = MappingProxyType({})


# Python refuses to parse a number of more than 4300 digits; no valid value has more digits than these.
_DIGITS: Final = 18


def whole_number(text: str) -> int | None:
    """The number that the digits 0-9 spell; None for anything else and for values beyond int64."""
    return int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else None


def mapping(raw: Raw, name: str, path: str) -> Raw:
    """The object in field `name`; `path` is the path of the field itself; raises UserError."""
    value = raw.get(name)
    if not value:
        return NO_FIELDS
    if not isinstance(value, dict):
        raise UserError(path, f"This must be an object, not {quoted(value)}.")
    return value


def mappings(raw: Raw, name: str, path: str) -> Sequence[Raw]:
    """The list of objects in field `name`; `path` is the path of the field itself; raises UserError."""
    value = raw.get(name)
    if not value:
        return ()
    if not isinstance(value, list):
        raise UserError(path, f"This must be a list, not {quoted(value)}.")
    for index, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise UserError(f"{path}[{index}]", f"This must be an object, not {quoted(entry)}.")
    return value
