"""The table shows what the rows contain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tests.pages import table_rows
from tests.proof.measure import REAL, SIMULATED, ProofRow
from tests.proof.run import refused_binds
from tests.proof.table import COLUMNS, PAGE_COLUMNS, cells, halves, markdown, page_cells, table, with_tables

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "how-it-works.md").read_text()

WITHOUT = ProofRow(
    False, 1200, 64, 1136, 20, 1.25, 30.0, 0.5, 0, scenario="gangs", kubelets=SIMULATED, hints=0, wrong_hints=0
)
WITH = ProofRow(True, 64, 64, 0, 64, 0.5, None, 0.75, 7, scenario="gangs", kubelets=SIMULATED, hints=62, wrong_hints=3)
ON_REAL = replace(WITH, kubelets=REAL, running=8)

METRICS = """
apiserver_admission_webhook_rejection_count{error_type="no_error",name="guard.bindings.topology-webhook.dev",operation="CREATE",rejection_code="403",type="admit"} 52
apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="guard.bindings.topology-webhook.dev",operation="CREATE",rejection_code="0",type="admit"} 3
apiserver_admission_webhook_rejection_count{error_type="no_error",name="mutate.pods.topology-webhook.dev",operation="CREATE",rejection_code="403",type="admit"} 9
"""  # noqa: E501 - the API server's own lines


def test_a_row_has_a_cell_for_each_column() -> None:
    none = ("",) * 5
    assert cells(WITHOUT) == ("gangs", "without", "64", "1,136", "95%", "20", "1.2 s / 30.0 s", "50.0%", *none)
    assert cells(WITH) == ("gangs", "with", "64", "0", "0%", "64", "0.5 s / -", "75.0%", "7", "62", "3", "", "")
    assert cells(replace(WITH, claims=48, apart=0))[-2:] == ("48", "0")


def test_wrong_hints_stand_in_the_table_and_in_the_json_under_the_same_name() -> None:
    assert dict(zip(COLUMNS, cells(WITH), strict=True))["wrongHints"] == "3"
    assert [each.to_json()["kubelets"] for each in (WITH, ON_REAL)] == ["simulated", "real"]
    assert (WITH.to_json()["hints"], WITH.to_json()["wrongHints"]) == (62, 3)


def test_a_page_leaves_out_the_share_of_rejected_pods_alone() -> None:
    assert [name for name in COLUMNS if name not in PAGE_COLUMNS] == ["share rejected"]
    assert page_cells(WITHOUT) == tuple(cell for cell in cells(WITHOUT) if cell != "95%")


def test_markdown_has_a_line_for_each_row() -> None:
    header, rule, *rows = markdown([WITHOUT, WITH]).splitlines()
    assert header.split(" | ")[0] == "| scenario"
    assert all(line.count("|") == len(PAGE_COLUMNS) + 1 for line in (header, rule, *rows))
    assert len(rows) == 2


def test_the_table_of_a_page_is_replaced_and_nothing_else() -> None:
    page = "before\n<!-- proof-simulated: begin -->\n{}\n<!-- proof-simulated: end -->\nafter\n"
    made = with_tables(page.format("none yet"), [WITH])
    assert made == page.format(markdown([WITH]))
    assert with_tables(made, [replace(WITH, running=1)]) == page.format(markdown([replace(WITH, running=1)]))


def test_rows_of_other_runs_stay_in_their_order() -> None:
    page = "<!-- proof-simulated: begin -->\n<!-- proof-simulated: end -->"
    rows = [replace(row, scenario=name) for name in ("first", "second") for row in (WITHOUT, WITH)]
    made = with_tables(page, [*rows[1:], replace(rows[0], running=1)])
    assert markdown(rows) in with_tables(made, rows[:1])


def test_the_page_has_a_place_for_each_half_the_real_one_first() -> None:
    made = with_tables(PAGE, [WITH, ON_REAL])
    real, simulated = (made.index(" | ".join(page_cells(row))) for row in (ON_REAL, WITH))
    assert made.index("Real kubelets, fake hardware") < real < made.index("Simulated kubelets") < simulated


def test_a_half_that_did_not_run_is_left_as_it_is() -> None:
    both = with_tables(PAGE, [WITH, ON_REAL])
    assert " | ".join(page_cells(ON_REAL)) in with_tables(both, [WITHOUT])


def test_the_numbers_in_the_readme_are_those_of_real_kubelets_in_the_table() -> None:
    rows = [dict(zip(PAGE_COLUMNS, row, strict=True)) for row in table_rows(PAGE, f"proof-{REAL}")]

    def total(column: str, webhook: str) -> int:
        return sum(int(row[column] or 0) for row in rows if row["webhook"] == webhook)

    members = total("in their rack", "with")  # eight gangs of four: with the webhook all of them are
    assert members == 32
    for numbers in (
        f"{total('rejected by kubelets', 'without')} | {total('rejected by kubelets', 'with')}",
        f"{total('in their rack', 'without')} of 32 | {members} of 32",
        f"{total('wrongHints', 'with')} of {total('hints', 'with')}",
    ):
        assert f"| {numbers} |" in README


def test_the_halves_are_real_and_simulated_kubelets() -> None:
    assert [(title, rows) for title, rows in halves([WITH, ON_REAL, WITHOUT])] == [
        ("real kubelets, fake hardware", [ON_REAL]),
        ("simulated kubelets", [WITH, WITHOUT]),
    ]
    assert [title for title, _ in halves([WITH])] == ["simulated kubelets"]


def test_the_terminals_table_holds_the_same() -> None:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(table([WITHOUT, WITH]))
    assert "1,136" in captured.get()


def test_only_bindings_that_were_refused_count_as_refused() -> None:
    assert refused_binds(METRICS) == 52
    assert refused_binds("") == 0
