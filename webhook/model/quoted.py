"""What an error repeats of a user's value: enough to find it again, whatever its size.

`repr` of a value of 3 MiB takes its time and many times its memory; here only what is shown is formatted.
"""

from itertools import islice
from reprlib import Repr
from typing import Any, Final

_SHOWN: Final = 60


class _Quoter(Repr):
    """Repr of some 60 characters."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = self.maxlist = self.maxtuple = 3
        self.maxother = _SHOWN

    def repr_str(self, x: str, level: int) -> str:
        """Text, cut at its end."""
        return repr(x) if len(x) <= _SHOWN else f"{x[:_SHOWN]!r}…"

    def repr_int(self, x: int, level: int) -> str:
        """A number; Python refuses to write out one of thousands of digits."""
        return repr(x) if x.bit_length() <= 4 * _SHOWN else f"a number of {x.bit_length()} bits"

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """The first fields in their order; reprlib would sort all of them."""
        if level <= 0:
            return "{…}" if x else "{}"
        shown = [f"{self.repr1(key, level - 1)}: {self.repr1(x[key], level - 1)}" for key in islice(x, 3)]
        return "{" + ", ".join([*shown, "…"] if len(x) > len(shown) else shown) + "}"


_QUOTER: Final = _Quoter()


def quoted(value: object) -> str:
    """The value as Python writes it, cut where it is long."""
    return _QUOTER.repr(value)
