"""JSON that a person wrote into an annotation, with an error that names the place and the likely mistake."""

import json
import re
from typing import Any, NoReturn

from webhook.model.errors import UserError

_SHOWN = 60
"""How many characters of the user's text an error repeats."""

_PYTHON_OR_YAML_LITERAL = re.compile(r"(?:True|False|None|yes|no)\b")
_TYPOGRAPHIC_QUOTES = {chr(0x201C), chr(0x201D), chr(0x201E), chr(0x2018), chr(0x2019)}
_BARE_WORD = re.compile(r"[A-Za-z_]\w*")
_YAML_FIELD = re.compile(r"\s*[A-Za-z_]\w*\s*:\s")


def parse_object(text: object, path: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The JSON object in `text` and the names of fields written twice; `null` is an empty object; raises UserError."""
    if not isinstance(text, str):
        raise UserError(
            path, f"must be text that holds a JSON object, not {_shown(text)}. In YAML, put the value in single quotes."
        )
    if not text.strip():
        raise UserError(path, "is empty. Write a JSON object, such as {}, or remove the annotation.")
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            repeated.extend(dict.fromkeys(name for name in names if names.count(name) > 1))
        return fields

    try:
        value = json.loads(text, object_pairs_hook=collect, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        likely = _likely_mistake(text, error)
        raise UserError(
            path,
            f"is not valid JSON at line {error.lineno}, column {error.colno}: {likely} The value is {_shown(text)}.",
        ) from None
    except (ValueError, RecursionError) as error:
        raise UserError(path, f"is not valid JSON: {error}. The value is {_shown(text)}.") from None
    if value is None:
        return {}, ()
    if not isinstance(value, dict):
        raise UserError(path, _not_an_object(value, text))
    return value, tuple(repeated)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _likely_mistake(text: str, error: json.JSONDecodeError) -> str:
    """One sentence or two: what is wrong at the place of the error, and the cure."""
    rest = text[error.pos :]
    here = rest[:1]
    before = text[: error.pos].rstrip()
    if here in {"}", "]"} and before.endswith(","):
        return f"there is a trailing comma before '{here}'. Remove the comma."
    # Newer Pythons point at the comma itself.
    if here == "," and rest[1:].lstrip()[:1] in {"}", "]"}:
        return f"there is a trailing comma before '{rest[1:].lstrip()[0]}'. Remove the comma."
    if not rest.strip():
        return "the text ends too early. A closing brace or quote is missing."
    if here == "'":
        return "strings stand in double quotes (\"), not in single quotes (')."
    if here in _TYPOGRAPHIC_QUOTES:
        return f'strings stand in plain double quotes ("), not in typographic ones ({here}).'
    if rest.startswith(("//", "/*", "#")):
        return "JSON has no comments. Remove the comment."
    if _YAML_FIELD.match(text):
        return 'this looks like YAML. Write JSON: {"field": "value"}.'
    if match := _PYTHON_OR_YAML_LITERAL.match(rest):
        return f"{match[0]} is no JSON value. Write true, false or null, or put it in double quotes."
    if match := _BARE_WORD.match(rest):
        return f'{match[0]} must stand in double quotes: "{match[0]}".'
    if error.msg.startswith("Extra data"):
        return f"there is something after the end of the JSON value: {_shown(rest)}."
    if error.msg.startswith(("Unterminated string", "Invalid control character")):
        return "a string runs over the end of its line. A closing double quote is missing."
    return f"{error.msg[0].lower()}{error.msg[1:]}."


def _not_an_object(value: object, text: str) -> str:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return f"holds JSON inside a JSON string. Remove one level of quotes: {_shown(value)}."
    return f'must be a JSON object, such as {{"field": "value"}}, not {_shown(text)}.'


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
