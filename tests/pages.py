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
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    start, stop = page.index(begin) + len(begin), page.index(end)
    return f"{page[:start]}\n{table}\n{page[stop:]}"


def markdown(header: tuple[str, ...], rows: list[tuple[str, ...]], *, text_columns: int) -> str:
    """A Markdown table. Columns after the first `text_columns` are numbers, aligned to the right."""
    rules = tuple("---" if number < text_columns else "---:" for number in range(len(header)))
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, rules, *rows))
