"""Tables for people: aligned columns, bars and colors in a terminal, plain text elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, STORAGE, is_hugepages

_GAP: Final = "  "
_BAR: Final = 8
# Cells of more columns are sentences, lists or long names. Amounts of four NUMA nodes, "40Gi 40Gi 34Gi 28Gi (of 64Gi)",
# are not.
_SENTENCE: Final = 30
# A name may have 253 characters. One that is longer than half of a terminal is folded.
_WORD: Final = 40
_UNITS: Final = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of one column in one row. right: aligned to the right."""

    text: str
    style: str = ""
    right: bool = False


def print_table(rows: Sequence[Sequence[Cell]], console: Console) -> None:
    """Print the rows; the first one is the header. Nothing is cut.

    A terminal that is too narrow gets cells of several lines. Elsewhere a row is a line, for programs such as grep.
    """
    if not fits(rows, console):
        _print_folded(rows, console)
        return
    widths = _widths(rows)
    for row in rows:
        line = Text(style="bold" if row is rows[0] else "")
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            pad = " " * (width - cell_len(cell.text))
            before, after = (pad, "") if cell.right else ("", pad)
            line.append(("" if not number else _GAP) + before)
            line.append(cell.text, style=cell.style)
            line.append(after)
        line.rstrip()
        console.print(line, soft_wrap=True)


def fits(rows: Sequence[Sequence[Cell]], console: Console) -> bool:
    """Whether each row is a line of the terminal; elsewhere lines have any length."""
    widths = _widths(rows)
    return not console.is_terminal or sum(widths) + len(_GAP) * (len(widths) - 1) <= console.width


def _widths(rows: Sequence[Sequence[Cell]]) -> list[int]:
    return [max(cell_len(cell.text) for cell in column) for column in zip(*rows, strict=True)]


def _print_folded(rows: Sequence[Sequence[Cell]], console: Console) -> None:
    """Fold titles and sentences at spaces. Columns that do not fit then follow in a table with the first one again."""
    columns = list(zip(*rows, strict=True))
    wanted, least = _widths(rows), [max(_longest_word(column[:1]), _least(column[1:])) for column in columns]
    blocks, used = [[0]], least[0]
    for number in range(1, len(columns)):
        if used + len(_GAP) + least[number] > console.width and len(blocks[-1]) > 1:
            blocks.append([0])
            used = least[0]
        blocks[-1].append(number)
        used += len(_GAP) + least[number]
    for block in blocks:
        if block is not blocks[0]:
            console.print()
        table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
        spare = console.width - sum(least[number] + len(_GAP) for number in block) + len(_GAP)
        for number in block:
            more = max(min(spare, wanted[number] - least[number]), 0)
            spare -= more
            title = columns[number][0]
            justify: Literal["left", "right"] = "right" if title.right else "left"
            table.add_column(Text(title.text), justify=justify, overflow="fold", width=least[number] + more)
        for row in rows[1:]:
            table.add_row(*(Text(row[number].text, style=row[number].style) for number in block))
        console.print(table)


def _least(cells: Sequence[Cell]) -> int:
    widest = max((cell_len(cell.text) for cell in cells), default=0)
    return widest if widest <= _SENTENCE else max(_SENTENCE, min(_longest_word(cells), _WORD))


def _longest_word(cells: Sequence[Cell]) -> int:
    return max(cell_len(word) for cell in cells for word in cell.text.split() or [""])


def print_line(line: Text, console: Console, hanging: int = 2) -> None:
    """Print a line. A terminal gets it wrapped at spaces, all but its first line indented; elsewhere it stays whole."""
    if not console.is_terminal or line.cell_len <= console.width:
        console.print(line, soft_wrap=True)
        return
    first, *_ = line.wrap(console, console.width)
    rest = line[len(first) :]
    first.rstrip()
    console.print(first, soft_wrap=True)
    for each in rest.wrap(console, max(console.width - hanging, 1)):
        each.rstrip()
        console.print(Text(" " * hanging).append_text(each), soft_wrap=True)


def indented(rows: Iterable[Sequence[Cell]]) -> list[list[Cell]]:
    """The rows of a table below a line of text."""
    return [[replace(row[0], text=f"  {row[0].text}"), *row[1:]] for row in rows]


def names_text(names: Sequence[str], most: int = 3) -> str:
    """Names of equal things in a line: "n1, n2, n3 and 997 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


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
