"""Tables for people: aligned columns, bars and colors in a terminal, plain text elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from webhook.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, STORAGE, is_hugepages

_GAP: Final = "  "
_BAR: Final = 8
_UNITS: Final = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of one column in one row. right: aligned to the right."""

    text: str
    style: str = ""
    right: bool = False


def print_table(rows: Sequence[Sequence[Cell]], console: Console) -> None:
    """Print the rows; the first one is the header. A terminal may wrap lines; nothing is cut here."""
    widths = [max(cell_len(cell.text) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        line = Text(style="bold" if row is rows[0] else "")
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            pad = " " * (width - cell_len(cell.text))
            before, after = (pad, "") if cell.right else ("", pad)
            line.append(("" if not number else _GAP) + before)
            line.append(cell.text, style=cell.style)
            line.append(after)
        line.rstrip()
        print_line(line, console)


def print_line(line: Text, console: Console) -> None:
    """Print a line as it is, without wrapping."""
    console.print(line, soft_wrap=True)


def bar(used: int, total: int, console: Console) -> str:
    """How much is used, as a bar; empty if the output is not a terminal."""
    if not console.is_terminal:
        return ""
    full, empty = ("#", ".") if console.options.ascii_only else ("█", "░")
    filled = 0 if total <= 0 else min(_BAR, -(-max(used, 0) * _BAR // total))
    return full * filled + empty * (_BAR - filled) + " "


def style_of(free: int, total: int) -> str:
    """Red if nothing is free, yellow if less than a quarter is, else green."""
    if total <= 0:
        return "dim"
    return "red" if free <= 0 else "yellow" if free * 4 < total else "green"


def short_amount(resource: str, amount: int) -> str:
    """An amount in at most five characters or so, rounded down: "12.5", "63.9Gi", "8"."""
    if resource == CPU:
        cores, rest = divmod(amount, 1000)
        return f"{amount}m" if 0 < amount < 100 else _with_tenth(cores, rest * 10 // 1000)
    if resource in {MEMORY, EPHEMERAL_STORAGE, STORAGE} or is_hugepages(resource):
        for index, name in enumerate(_UNITS):
            unit = 1 << (60 - 10 * index)
            if amount >= unit:
                whole, rest = divmod(amount, unit)
                return _with_tenth(whole, rest * 10 // unit) + name
    return str(amount)


def short_duration(seconds: int) -> str:
    """A time span as kubectl prints ages: 45s, 12m, 3h, 2d."""
    for length, name in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * length:
            return f"{seconds // length}{name}"
    return f"{seconds}s"


def resource_title(resource: str) -> str:
    """The heading of a resource: CPU, MEMORY, GPU."""
    return resource.rpartition("/")[2].upper()


def _with_tenth(whole: int, tenths: int) -> str:
    return f"{whole}.{tenths}" if tenths else str(whole)
