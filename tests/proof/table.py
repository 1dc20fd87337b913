"""The rows as a table, the two runs of a scenario below each other, for a terminal or as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from tests import pages
from webhook.simulation import run_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.proof.measure import Row

COLUMNS = ("scenario", *run_metrics.COLUMNS, "hints", "wrongHints")


def cells(row: Row) -> tuple[str, ...]:
    """One cell for each of COLUMNS."""
    return (
        row.scenario,
        *run_metrics.cells(row),
        f"{row.hints:,}" if row.webhook else "",
        f"{row.wrong_hints:,}" if row.webhook else "",
    )


def markdown(rows: Sequence[Row]) -> str:
    """A Markdown table; numbers are aligned to the right."""
    return pages.markdown(COLUMNS, [cells(row) for row in rows], text_columns=2)


def with_table(page: str, rows: Sequence[Row]) -> str:
    """The page with the rows between its marks. Raises ValueError if it has none."""
    return pages.with_table(page, "proof", markdown(rows))


def table(rows: Sequence[Row]) -> Table:
    """The table for a terminal."""
    made = Table(*COLUMNS)
    for column in made.columns[2:]:
        column.justify = "right"
    for row in rows:
        made.add_row(*cells(row), end_section=row.webhook)
    return made
