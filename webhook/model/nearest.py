"""What the user probably meant: the nearest of the allowed words."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that `word` most likely stands for, None if none is near.

    Case and punctuation are looked through first (single-numa-node is SingleNUMANode), then misspellings.
    """
    plain = {_plain(candidate): candidate for candidate in allowed if candidate}
    matches = get_close_matches(_plain(word), plain, n=1)
    return plain[matches[0]] if matches else None


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """' Did you mean X?', with a leading space, or nothing."""
    match = nearest(word, allowed)
    return f" Did you mean {match}?" if match is not None else ""


def _plain(word: str) -> str:
    return "".join(filter(str.isalnum, word)).lower()
