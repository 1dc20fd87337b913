"""The rows as tables, one of real and one of simulated kubelets, for a terminal or as Markdown.

The two runs of a scenario stand below each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table

from tests import pages
from tests.proof.measure import REAL, SIMULATED
from webhook.simulation import run_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.proof.measure import ProofRow

_TITLES: Final = {REAL: "real kubelets, fake hardware", SIMULATED: "simulated kubelets"}
COLUMNS = ("scenario", *run_metrics.COLUMNS, "hints", "wrongHints", "claims", "apart")
# A page leaves out what follows from the two columns before it.
PAGE_COLUMNS = tuple(name for name in COLUMNS if name != "share rejected")


def page_cells(row: ProofRow) -> tuple[str, ...]:
    """One cell for each of PAGE_COLUMNS."""
    return tuple(cell for name, cell in zip(COLUMNS, cells(row), strict=True) if name in PAGE_COLUMNS)


def cells(row: ProofRow) -> tuple[str, ...]:
    """One cell for each of COLUMNS."""
    return (
        row.scenario,
        *run_metrics.cells(row),
        f"{row.hints:,}" if row.webhook else "",
        f"{row.wrong_hints:,}" if row.webhook else "",
        "" if row.claims is None else f"{row.claims:,}",
        "" if row.apart is None else f"{row.apart:,}",
    )


def markdown(rows: Sequence[ProofRow]) -> str:
    """The Markdown table of a page; numbers are aligned to the right."""
    return pages.markdown(PAGE_COLUMNS, [page_cells(row) for row in rows], text_columns=2)


def halves(rows: Sequence[ProofRow]) -> Iterator[tuple[str, Sequence[ProofRow]]]:
    """The rows of each half that has some, after its title."""
    for kubelets, title in _TITLES.items():
        if half := [row for row in rows if row.kubelets == kubelets]:
            yield title, half


def with_tables(page: str, rows: Sequence[ProofRow]) -> str:
    """The page with these rows between the marks of their halves, where other runs' rows stay.

    Raises ValueError if it has no marks.
    """
    for _, half in halves(rows):
        name = f"proof-{half[0].kubelets}"
        found = {line[:2]: line for line in [*pages.table_rows(page, name), *map(page_cells, half)]}
        in_order = list(dict.fromkeys(scenario for scenario, _ in found))
        lines = sorted(found.values(), key=lambda line: (in_order.index(line[0]), line[1] == "with"))
        page = pages.with_table(page, name, pages.markdown(PAGE_COLUMNS, lines, text_columns=2))
    return page


def table(rows: Sequence[ProofRow], title: str = "") -> Table:
    """The table for a terminal."""
    made = Table(*COLUMNS, title=title)
    for column in made.columns[2:]:
        column.justify = "right"
    for row in rows:
        made.add_row(*cells(row), end_section=row.webhook)
    return made
