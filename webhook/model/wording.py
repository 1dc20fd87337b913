"""How messages quote a user's values, count things, suggest words and list problems.

All are short, whatever a user or a node writes.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from reprlib import Repr
from typing import Any, Final

MAX_TAINTS: Final = 64
"""The most taints read from a node. Nodes in use have a handful."""
MAX_NODE_RESOURCES: Final = 512
"""The most resources read from a node or NUMA node. Machines in use have a few dozen."""
MAX_ZONES: Final = 16
"""The most NUMA nodes with CPUs, memory or devices that are read from a node: all 2^n sets of them are tried.

The kubelet's limit is 8 by default, and counts the others, too.
"""

_TOLD: Final = 10
_LONGEST_PROBLEM: Final = 300


def told(problems: Sequence[str]) -> tuple[str, ...]:
    """The first problems, truncated if long, and how many more there are."""
    shown = [one if len(one) <= _LONGEST_PROBLEM else f"{one[:_LONGEST_PROBLEM]}…" for one in problems[:_TOLD]]
    if len(problems) > _TOLD:
        shown.append(f"and {len(problems) - _TOLD} more")
    return tuple(shown)


# The cost of a comparison is the product of both lengths. No real name is longer than this, and a suggestion among
# thousands of words does not help.
_LONGEST: Final = 100
_MOST: Final = 256


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that `word` most likely stands for; None if none is similar.

    Case and punctuation are ignored first (single-numa-node is SingleNUMANode), as is a domain (gpu is nvidia.com/gpu);
    then misspellings are tried.
    """
    if len(word) > _LONGEST:
        return None
    names = [name for name in islice(allowed, _MOST) if name and len(name) <= _LONGEST]
    plain = {_plain(name.rpartition("/")[2]): name for name in names} | {_plain(name): name for name in names}
    matches = get_close_matches(_plain(word), plain, n=1)
    return plain[matches[0]] if matches else None


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """' Did you mean X?' with a leading space, or an empty string."""
    match = nearest(word, allowed)
    return f" Did you mean {match}?" if match is not None else ""


def _plain(word: str) -> str:
    return "".join(filter(str.isalnum, word)).lower()


def counted(count: int, one: str, many: str = "", *, number: str = "") -> str:
    """`1 pod`, else `3 pods`.

    many: for other plurals and for verbs (`node fits`, `nodes fit`). number: how the count is written, e.g. `1,204`.
    """
    return f"{number or count} {one if count == 1 else many or plural(one)}"


def plural(noun: str) -> str:
    """`racks`, `switches`."""
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


_SHOWN: Final = 60


class _Quoter(Repr):
    """A repr of about 60 characters."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = self.maxlist = self.maxtuple = 3
        self.maxother = _SHOWN

    def repr_str(self, x: str, level: int) -> str:
        """Text, truncated at its end."""
        return repr(x) if len(x) <= _SHOWN else f"{x[:_SHOWN]!r}…"

    def repr_int(self, x: int, level: int) -> str:
        """A number; Python refuses to print one with thousands of digits."""
        return repr(x) if x.bit_length() <= 4 * _SHOWN else f"a number of {x.bit_length()} bits"

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """The first fields in their order; reprlib would sort them all first."""
        if level <= 0:
            return "{…}" if x else "{}"
        shown = [f"{self.repr1(key, level - 1)}: {self.repr1(x[key], level - 1)}" for key in islice(x, 3)]
        return "{" + ", ".join([*shown, "…"] if len(x) > len(shown) else shown) + "}"


_QUOTER: Final = _Quoter()


def quoted(value: object) -> str:
    """The value as Python writes it, truncated if it is long."""
    return _QUOTER.repr(value)
