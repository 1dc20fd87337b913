"""Annotations whose names are likely misspellings of those that we read.

A name is a domain, a slash and a word. Letters and digits are compared in lower case:
1. In the same domain the word is similar, or is the beginning of ours.
2. In a similar domain the word is the same.
"""

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from webhook.model import names
from webhook.model.names import DOMAIN_OF_LEVEL, INHERIT, INJECT_ENV, OUR_DOMAIN
from webhook.model.owner_chain import INHERITED

READ: Final = INHERITED | {INHERIT, INJECT_ENV}
"""The annotations that users write on pods and workloads."""

_OURS: Final = frozenset(name for name in vars(names).values() if isinstance(name, str) and name.startswith(OUR_DOMAIN))
# Longer than any name that we read: the cost of a comparison is the product of both lengths.
_LONGEST: Final = 80
# Ratios of equal letters. topology-required has 0.78 with topology-required-placement; names of KAI-Scheduler and
# Koordinator with another meaning have less than 0.7.
_SIMILAR: Final = 0.75
_SIMILAR_DOMAIN: Final = 0.85


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _split(name: str) -> tuple[str, str]:
    """The domain with its slash, and the word."""
    domain, slash, says = name.rpartition("/")
    return domain + slash, says


# Domain -> word -> name. Word -> its domains -> name.
_BY_DOMAIN: Final = {
    domain: {_split(name)[1]: name for name in sorted(READ) if _split(name)[0] == domain}
    for domain in {_split(name)[0] for name in READ}
}
_BY_SAYING: Final = {
    says: {_split(name)[0]: name for name in sorted(READ) if _plain(_split(name)[1]) == says}
    for says in {_plain(_split(name)[1]) for name in READ}
}
_NONE: Final[Mapping[str, str]] = {}


def is_compared(name: str) -> bool:
    """Whether `meant` compares this name, which takes up to a millisecond."""
    if name in READ or name in _OURS or name.startswith(DOMAIN_OF_LEVEL) or len(name) > _LONGEST:
        return False
    domain, says = _split(name)
    return domain in _BY_DOMAIN or _plain(says) in _BY_SAYING


@lru_cache(maxsize=1024)
def meant(name: str) -> str | None:
    """The name that this one most likely stands for; None if it is correct, or similar to none."""
    if not is_compared(name):
        return None
    domain, says = _split(name)
    close = [
        *_close(says, _BY_DOMAIN.get(domain, _NONE), _SIMILAR),
        *_close(domain, _BY_SAYING.get(_plain(says), _NONE), _SIMILAR_DOMAIN),
    ]
    return max(close)[1] if close else None


def _close(word: str, wanted: Mapping[str, str], least: float) -> Iterator[tuple[float, str]]:
    """The similar candidates: the similarity of each, and the name that it belongs to."""
    matcher = SequenceMatcher(None, "", _plain(word), autojunk=False)
    for other, name in wanted.items():
        matcher.set_seq1(_plain(other))
        begins = other.startswith(f"{word}-") and "-" in word
        if begins or matcher.quick_ratio() >= least:
            similarity = matcher.ratio()
            if begins or similarity >= least:
                yield similarity, name
