"""JSON that a user wrote into an annotation. Errors name the position and the likely mistake."""

import json
import re
from collections import Counter
from typing import Any, NoReturn

from webhook.model.errors import UserError

_SHOWN = 60
"""How many characters of the user's text an error quotes."""

_TYPOGRAPHIC_QUOTES = {chr(0x201C), chr(0x201D), chr(0x201E), chr(0x2018), chr(0x2019)}
_FOREIGN_LITERAL = re.compile(r"(?:True|False|None|yes|no)\b")  # of Python and YAML
_BARE_WORD = re.compile(r"[A-Za-z_]\w*")
_YAML_FIELD = re.compile(r"\s*[A-Za-z_]\w*\s*:\s")
_TRAILING_COMMA = re.compile(r",\s*[}\]]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_object(
    text: object, path: str, example: str = '{"field": "value"}'
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The JSON object in `text` and the names of duplicate fields; `null` is an empty object; raises UserError.

    `path`: the field that holds the text; `example`: an object to show in the message if the text is empty.
    """
    if not isinstance(text, str):
        raise UserError(
            path,
            f"The value must be text that holds a JSON object, not {_shown(text)}. In YAML, put it in single quotes.",
        )
    if not text.strip():
        raise UserError(path, f"The value is empty. Write a JSON object, such as {example}, or remove it.")
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            repeated.extend(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        return fields

    try:
        value = json.loads(text, object_pairs_hook=collect, parse_constant=_reject_constant, parse_int=_integer)
        if _SURROGATE.search(text):
            _check_characters(value)
    except json.JSONDecodeError as error:
        raise UserError(path, _invalid(text, error, example)) from None
    except RecursionError:
        raise UserError(path, f"The JSON is nested too deeply. The value is {_shown(text)}.") from None
    except ValueError as error:
        raise UserError(path, f"The JSON is invalid: {error}. The value is {_shown(text)}.") from None
    if value is None:
        return {}, ()
    if not isinstance(value, dict):
        raise UserError(path, _not_an_object(value, text, example))
    return value, tuple(repeated)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        # Python's own message is about its conversion limit, which does not help the user.
        raise ValueError(f"a number of {len(digits)} digits is too long") from None


def _check_characters(value: object) -> None:
    """Raise ValueError for an unpaired surrogate: JSON can spell it, but no response can contain it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        raise ValueError(f"\\u{half:04x} is half of a surrogate pair, and no character") from None


def _invalid(text: str, error: json.JSONDecodeError, example: str) -> str:
    if _YAML_FIELD.match(text):
        return f"The value looks like YAML: {_shown(text)}. Write a JSON object, such as {example}."
    if _BARE_WORD.match(text.lstrip()):
        return _not_an_object(None, text, example)
    place = error.pos
    if (comma := _trailing_comma(text, error.pos)) is not None:
        place, likely = comma, "there is a trailing comma. Remove it."
    else:
        likely = _likely_mistake(text[place:], error)
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    return f"The JSON is invalid at line {line}, column {column}: {likely} The value is {_shown(text)}."


def _trailing_comma(text: str, position: int) -> int | None:
    """The position of the comma if it is the mistake; older Pythons report the position after it."""
    before = text[:position].rstrip()
    start = len(before) - 1 if before.endswith(",") else position
    return start if _TRAILING_COMMA.match(text, start) else None


def _likely_mistake(rest: str, error: json.JSONDecodeError) -> str:
    """What is wrong at the start of `rest`, and the fix."""
    if not rest.strip():
        return "the text ends too early. A closing brace or quote is missing."
    if rest[0] == "'":
        return "strings stand in double quotes (\"), not in single quotes (')."
    if rest[0] in _TYPOGRAPHIC_QUOTES:
        return f'strings stand in plain double quotes ("), not in typographic ones ({rest[0]}).'
    if rest.startswith(("//", "/*", "#")):
        return "JSON has no comments. Remove the comment."
    if match := _FOREIGN_LITERAL.match(rest):
        return f"{match[0]} is no JSON value. Write true, false or null, or put it in double quotes."
    if match := _BARE_WORD.match(rest):
        return f'{match[0]} must stand in double quotes: "{match[0]}".'
    if error.msg.startswith("Extra data"):
        return f"there is something after the end of the JSON value: {_shown(rest)}."
    if error.msg.startswith(("Unterminated string", "Invalid control character")):
        return "a string runs over the end of its line. A closing double quote is missing."
    return f"{error.msg[0].lower()}{error.msg[1:]}."


def _not_an_object(value: object, text: str, example: str) -> str:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return f"The value holds JSON inside a JSON string. Remove one level of quotes: {_shown(value)}."
    return f"The value must be a JSON object, such as {example}, not {_shown(text)}."


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return shortened(" ".join(text.split()))


def shortened(text: str) -> str:
    """The start of a user's text, for an error. Control characters are escaped, because terminals obey them."""
    return printable(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def printable(text: str) -> str:
    """The text with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
