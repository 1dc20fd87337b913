"""The rows as a table, for a terminal or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from tests import pages
from tests.chaos.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.row import Row

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
)


def cells(row: Row) -> tuple[str, ...]:
    """One cell for each of COLUMNS."""
    values = row.to_json()
    return tuple(f"{values[name]:.1f} s" if name.startswith("wait") else str(values[name]) for name in COLUMNS)


def with_rows(page: str, rows: Sequence[Row]) -> str:
    """The page with these rows in its table; rows of other scenarios stay. Raises ValueError if it has no marks."""
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    known = {line[0]: tuple(line) for line in lines if line[0] in SCENARIOS and len(line) == len(COLUMNS)}
    known |= {row.scenario: cells(row) for row in rows}
    in_order = [known[name] for name in SCENARIOS if name in known]
    return pages.with_table(page, "chaos", pages.markdown(COLUMNS, in_order, text_columns=1))


def table(rows: Sequence[Row]) -> Table:
    """The table for a terminal."""
    made = Table(*COLUMNS)
    for column in made.columns[1:]:
        column.justify = "right"
    for row in rows:
        made.add_row(*cells(row))
    return made
