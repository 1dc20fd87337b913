"""The rows as a table, for a terminal or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from tests import pages
from tests.chaos.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.row import FaultRow

COLUMNS = (
    "scenario",
    "created",
    "clientErrors",
    "lost",
    "ungated",
    "rejected",
    "overCommitted",
    "gangsSplit",
    "waitP99",
    "waitMax",
    "leaderExits",
    "claimsLeft",
)
# A page leaves out the counts that must be zero: a row in which one is not never gets there.
PAGE_COLUMNS = ("scenario", "created", "clientErrors", "ungated", "waitP99", "waitMax")


def cells(row: FaultRow, columns: Sequence[str] = COLUMNS) -> tuple[str, ...]:
    """One cell for each of the columns."""
    values = row.to_json()
    return tuple(f"{values[name]:.1f} s" if name.startswith("wait") else str(values[name]) for name in columns)


def with_rows(page: str, rows: Sequence[FaultRow]) -> str:
    """The page with these rows in its table; rows of other scenarios stay.

    Raises ValueError if it has no marks, or if a count of a row must be zero and is not.
    """
    if broken := [f"{row.scenario}: {reason}" for row in rows for reason in row.broken()]:
        raise ValueError("; ".join(broken))
    known = {line[0]: line for line in pages.table_rows(page, "chaos")}
    known |= {row.scenario: cells(row, PAGE_COLUMNS) for row in rows}
    in_order = [known[name] for name in SCENARIOS if name in known]
    return pages.with_table(page, "chaos", pages.markdown(PAGE_COLUMNS, in_order, text_columns=1))


def table(rows: Sequence[FaultRow]) -> Table:
    """The table for a terminal."""
    made = Table(*COLUMNS)
    for column in made.columns[1:]:
        column.justify = "right"
    for row in rows:
        made.add_row(*cells(row))
    return made
