"""Pages of the docs: the commands in them, and tables that a command writes."""

from __future__ import annotations

import re


def console_lines(text: str) -> list[str]:
    """The commands in the console blocks. Lines that end in a backslash are joined with the next."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [line[2:] for block in blocks for line in block.replace("\\\n", "").splitlines() if line.startswith("$ ")]


def with_table(page: str, name: str, table: str) -> str:
    """A page with this table between its marks `<!-- name: begin -->` and `<!-- name: end -->`.

    Raises ValueError for a page without them.
    """
    start, stop = _between_marks(page, name)
    return f"{page[:start]}\n{table}\n{page[stop:]}"


def table_rows(page: str, name: str) -> list[tuple[str, ...]]:
    """The cells of the table between its marks, without its header. Raises ValueError for a page without them."""
    start, stop = _between_marks(page, name)
    _, *lines = [line for line in page[start:stop].splitlines() if line.startswith("|")] or [""]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[1:]]


def _between_marks(page: str, name: str) -> tuple[int, int]:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    return page.index(begin) + len(begin), page.index(end)


def markdown(header: tuple[str, ...], rows: list[tuple[str, ...]], *, text_columns: int) -> str:
    """A Markdown table. Columns after the first `text_columns` are numbers, aligned to the right."""
    rule = "|".join("---" if number < text_columns else "---:" for number in range(len(header)))
    first, *rest = ("| " + " | ".join(line) + " |" for line in (header, *rows))
    return "\n".join([first, f"|{rule}|", *rest])
