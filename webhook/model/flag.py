"""Annotations with the values "true" and "false"."""

from collections.abc import Mapping

from webhook.model.errors import UserError
from webhook.model.json_text import shortened


def is_on(annotations: Mapping[str, str], key: str, path: str = "metadata.annotations") -> bool:
    """Whether the annotation is "true"; absent means false. Raises UserError; `path` is that of the annotations."""
    text = annotations.get(key, "false")
    if text not in {"true", "false"}:
        raise UserError(f"{path}[{key}]", f'"{shortened(str(text))}" is not allowed here. Write "true" or "false".')
    return text == "true"
