"""Kubernetes quantities ("8", "1500m", "16Gi", "2e3") as exact integers.

Grammar:

    quantity = [ "+" | "-" ] number [ suffix ]
    number   = digits | digits "." [ digits ] | "." digits
    suffix   = "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E"          decimal SI
             | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"                      binary
             | ( "e" | "E" ) [ "+" | "-" ] digits                           decimal exponent

Everything is held in whole nano-units: what is finer is rounded away from zero, and a binary quantity is capped at
+-(2^63 - 1). So no value ever passes through a float.
Source: kubernetes/apimachinery pkg/api/resource (quantity.go, suffix.go); agreement is tested string by string.
Stricter in one point: a string without any digit ("m", "Gi") is an error here and zero there.
"""

import re
from enum import Enum
from functools import lru_cache
from typing import Final

INT64_MAX: Final = 2**63 - 1

_NANO_DIGITS = 9
_NANO: Final = 10**_NANO_DIGITS
_MILLI: Final = 10**6  # nano-units in a milli-unit
_BINARY_CAP: Final = INT64_MAX * _NANO

# No real resource has a longer number or a larger exponent, and writing it out in full costs time.
_MAX_LENGTH = 256
_MAX_EXPONENT = 256

_WELL_FORMED = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*[-+]?\d*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?\d+)", re.ASCII)
_DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = ("", *_BINARY_SUFFIXES)

_PATTERN_FAULT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX_FAULT: Final = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity; the message is the API server's."""


class Format(Enum):
    """The family of the suffix; arithmetic and printing keep it."""

    DECIMAL_SI = "decimal"
    BINARY_SI = "binary"
    DECIMAL_EXPONENT = "exponent"


class Quantity:
    """An exact amount in nano-units, and the suffix family of its text."""

    __slots__ = ("_text", "format", "nano")

    def __init__(self, nano: int, format: Format = Format.DECIMAL_SI, text: str | None = None) -> None:  # noqa: A002
        self.nano = nano
        self.format = format
        self._text = text

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """The quantity that `text` spells; raises QuantityError."""
        return _parse(text)

    @classmethod
    def from_json(cls, value: object) -> "Quantity":
        """A quantity in a JSON object: a string, a number, or null for zero; raises QuantityError."""
        if isinstance(value, str):
            return _parse(value.strip())
        if value is None:
            return cls(0)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _parse(repr(value))
        raise QuantityError(_PATTERN_FAULT)

    def value(self) -> int:
        """Whole units, rounded away from zero (0.1 is 1, -1.5 is -2)."""
        return _divide_away_from_zero(self.nano, _NANO)

    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return _divide_away_from_zero(self.nano, _MILLI)

    def canonical(self) -> str:
        """The canonical spelling: no fraction, the largest suffix that divides, the suffix family of the text."""
        if self.nano == 0:
            return "0"
        # Less than 1024 units, and fractions of a unit, are printed in decimal, so nothing is lost.
        if self.format is Format.BINARY_SI and abs(self.nano) >= 1024 * _NANO and self.nano % _NANO == 0:
            return self._canonical_binary()
        return self._canonical_decimal()

    def as_parsed(self) -> str:
        """What Kubernetes prints before any arithmetic: it keeps many spellings that are not canonical."""
        return self.canonical() if self._text is None else self._text

    def _canonical_binary(self) -> str:
        mantissa, power = self.nano // _NANO, 0
        while mantissa % 1024 == 0 and power < len(_BINARY_NAMES) - 1:
            mantissa //= 1024
            power += 1
        return f"{mantissa}{_BINARY_NAMES[power]}"

    def _canonical_decimal(self) -> str:
        mantissa, exponent = self.nano, -_NANO_DIGITS
        while mantissa % 1000 == 0:
            mantissa //= 1000
            exponent += 3
        if exponent == 0:
            return str(mantissa)
        # The suffixes end with E (10^18); a larger value has an exponent.
        if self.format is Format.DECIMAL_EXPONENT or exponent not in _DECIMAL_NAMES:
            return f"{mantissa}e{exponent}"
        return f"{mantissa}{_DECIMAL_NAMES[exponent]}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __repr__(self) -> str:
        return f"Quantity({self.as_parsed()!r})"


# A cluster has a few thousand spellings of amounts, and 50,000 pods repeat them.
@lru_cache(maxsize=8192)
def _parse(text: str) -> Quantity:
    match = _WELL_FORMED.fullmatch(text) if 0 < len(text) <= _MAX_LENGTH else None
    if match is None:
        raise QuantityError(_PATTERN_FAULT)
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4]
    if (power := _BINARY_SUFFIXES.get(suffix)) is not None:
        family, exponent = Format.BINARY_SI, 0
    elif (decimal := _DECIMAL_SUFFIXES.get(suffix)) is not None:
        family, exponent = Format.DECIMAL_SI, decimal
    else:
        family, exponent = Format.DECIMAL_EXPONENT, _exponent(suffix)
    if not (whole or fraction):
        raise QuantityError(_PATTERN_FAULT)

    mantissa = int(whole + fraction) << (power or 0)
    nano = _scale_to_nano(mantissa, exponent - len(fraction))
    if family is Format.BINARY_SI:
        nano = min(nano, _BINARY_CAP)
    kept = _is_left_alone(whole.lstrip("0") or "0", fraction, exponent, power)
    return Quantity(-nano if sign == "-" else nano, family, text if kept else None)


def _exponent(suffix: str) -> int:
    match = _EXPONENT.fullmatch(suffix)
    if match is None or abs(exponent := int(match[1])) > _MAX_EXPONENT:
        raise QuantityError(_SUFFIX_FAULT)
    return exponent


def _is_left_alone(whole: str, fraction: str, exponent: int, power: int | None) -> bool:
    """Whether Kubernetes prints the parsed text unchanged: short numbers that are nearly canonical.

    Decimal: at most 18 digits, no finer than 1n, a scale that is a multiple of 3, no thousands to fold, no leading
    0.
    Binary: no fraction, not a multiple of 8, and few enough digits (a binary power of p takes about 0.3 p of 15).
    """
    digits = whole + fraction
    if power is not None:
        return not fraction and 15 - len(whole) - power * 3 // 10 - 1 >= 0 and int(whole) % 8 != 0
    scale = exponent - len(fraction)
    return (
        len(digits) <= 18
        and scale >= -_NANO_DIGITS
        and scale % 3 == 0
        and not digits.endswith("000")
        and digits[0] != "0"
    )


def _scale_to_nano(mantissa: int, exponent: int) -> int:
    """`mantissa * 10**exponent` in nano-units, rounded away from zero."""
    exponent += _NANO_DIGITS
    scaled: int = mantissa * 10**exponent if exponent >= 0 else _divide_away_from_zero(mantissa, 10**-exponent)
    return scaled


def _divide_away_from_zero(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor) if dividend >= 0 else dividend // divisor
