"""Pages of the docs with a table that a command writes."""

from __future__ import annotations


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
