"""JSON texts with placeholders: 500,000 objects are written from a few of them, byte by byte as an API server does."""

from __future__ import annotations

import json
import re
from typing import Any

_PLACEHOLDER = re.compile(r"@([A-Z]+)@")


class ObjectTemplate:
    """An object whose strings contain placeholders such as @NAME@."""

    def __init__(self, raw: Any, *, sort_keys: bool = False) -> None:
        """sort_keys: as the API server writes custom resources."""
        text = json.dumps(raw, separators=(",", ":"), sort_keys=sort_keys)
        self._texts = _PLACEHOLDER.split(text)[0::2]
        self._names = _PLACEHOLDER.findall(text)

    def fill(self, **values: str) -> str:
        """The text with each placeholder replaced by the value of its name."""
        texts = [self._texts[0]]
        for name, after in zip(self._names, self._texts[1:], strict=True):
            texts += (values[name], after)
        return "".join(texts)
