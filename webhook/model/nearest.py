"""What the user probably meant: the nearest of the allowed words."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

# The cost of a comparison is the product of both lengths. No real name is longer than this, and a suggestion among
# thousands of words does not help.
_LONGEST: Final = 100
_MOST: Final = 256


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that `word` most likely stands for; None if none is similar.

    Case and punctuation are ignored first (single-numa-node is SingleNUMANode), then misspellings are tried.
    """
    if len(word) > _LONGEST:
        return None
    plain = {_plain(name): name for name in islice(allowed, _MOST) if name and len(name) <= _LONGEST}
    matches = get_close_matches(_plain(word), plain, n=1)
    return plain[matches[0]] if matches else None


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """' Did you mean X?' with a leading space, or an empty string."""
    match = nearest(word, allowed)
    return f" Did you mean {match}?" if match is not None else ""


def _plain(word: str) -> str:
    return "".join(filter(str.isalnum, word)).lower()
