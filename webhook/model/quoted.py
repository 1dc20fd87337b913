"""The part of a user's value that an error quotes: enough to find it, however large the value is.

`repr` of a 3 MiB value takes long and needs many times its memory; here only the visible part is formatted.
"""

from itertools import islice
from reprlib import Repr
from typing import Any, Final

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
