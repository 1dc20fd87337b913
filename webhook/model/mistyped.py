"""Annotations with names so close to those that are read here that these are most likely meant.

A name is a domain and, behind a slash, what it says. Both are compared by their letters and digits, in lower case:
1. In the same domain: what it says is similar, or the beginning of it.
2. In a similar domain: what it says is the same.
"""

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from webhook.model import names
from webhook.model.names import DOMAIN_OF_LEVEL, INHERIT, INJECT_ENV, OUR_DOMAIN
from webhook.model.owner_chain import INHERITED

READ: Final = INHERITED | {INHERIT, INJECT_ENV}
"""What users write on pods and workloads."""

_OURS: Final = frozenset(name for name in vars(names).values() if isinstance(name, str) and name.startswith(OUR_DOMAIN))
# Longer than any name that is read: comparing takes the product of two lengths.
_LONGEST: Final = 80
# Shares of equal letters. topology-required of topology-required-placement has 0.78; names of KAI-Scheduler and
# Koordinator that mean something else have less than 0.7.
_SIMILAR: Final = 0.75
_SIMILAR_DOMAIN: Final = 0.85


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _split(name: str) -> tuple[str, str]:
    """Domain, with its slash, and what it says."""
    domain, slash, says = name.rpartition("/")
    return domain + slash, says


# By domain: what its names say -> name. By what is said: its domains -> name.
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
    """Whether `meant` takes a closer look, which takes a millisecond at most."""
    if name in READ or name in _OURS or name.startswith(DOMAIN_OF_LEVEL) or len(name) > _LONGEST:
        return False
    domain, says = _split(name)
    return domain in _BY_DOMAIN or _plain(says) in _BY_SAYING


@lru_cache(maxsize=1024)
def meant(name: str) -> str | None:
    """The name that this one most likely stands for; None if it is right itself, or close to none."""
    if not is_compared(name):
        return None
    domain, says = _split(name)
    close = [
        *_close(says, _BY_DOMAIN.get(domain, _NONE), _SIMILAR),
        *_close(domain, _BY_SAYING.get(_plain(says), _NONE), _SIMILAR_DOMAIN),
    ]
    return max(close)[1] if close else None


def _close(word: str, wanted: Mapping[str, str], least: float) -> Iterator[tuple[float, str]]:
    """How similar a word is to each that is wanted, and the name that this is of; only those that are similar."""
    matcher = SequenceMatcher(None, "", _plain(word), autojunk=False)
    for other, name in wanted.items():
        matcher.set_seq1(_plain(other))
        begins = other.startswith(f"{word}-") and "-" in word
        if begins or matcher.quick_ratio() >= least:
            similarity = matcher.ratio()
            if begins or similarity >= least:
                yield similarity, name
