"""The rows as a table, the two runs of a scenario below each other, for a terminal or as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from tests import pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.proof.measure import Row

COLUMNS = (
    "scenario",
    "webhook",
    "pods run",
    "rejected by kubelets",
    "created in vain",
    "in their rack",
    "to Running p50 / p99",
    "CPUs in use",
    "binds refused",
    "hints",
    "wrongHints",
)


def cells(row: Row) -> tuple[str, ...]:
    """One cell for each of COLUMNS."""
    return (
        row.scenario,
        "with" if row.webhook else "without",
        f"{row.running:,}",
        f"{row.rejected:,}",
        f"{row.rejected / row.created:.0%}" if row.created else "-",
        "" if row.in_domain is None else f"{row.in_domain:,}",
        f"{_seconds(row.p50)} / {_seconds(row.p99)}",
        f"{row.utilisation:.1%}",
        f"{row.refused_binds:,}" if row.webhook else "",
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


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
