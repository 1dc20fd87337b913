"""How a row is counted, and which rows are failures."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.journal import Journal
from tests.chaos.load import POLICIES, Load, LoadKind, Unit, drawn
from tests.chaos.recorded import CAPACITY, RACKS, raw
from tests.chaos.row import FaultRow, counted, lost, percentile, split
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.table import COLUMNS, cells, with_rows
from tests.cluster.api import ApiError

if TYPE_CHECKING:
    from tests.cluster.api import Api

KEYS = [
    *("scenario", "created", "clientErrors", "lost", "ungated"),
    *("rejected", "overCommitted", "gangsSplit", "waitP99", "waitMax", "leaderExits", "claimsLeft"),
]
GOOD = FaultRow("leader-killed", 60, 0, 0, 0, 0, 0, 0, 1.234, 5.678, 0)
GANG = Unit("g", "ns", LoadKind.GANG, size=2, minimum=2, racked=True)


@pytest.fixture
def journal() -> Journal:
    return Journal(CAPACITY, RACKS)


@pytest.fixture
def load(journal: Journal) -> Load:
    api: Api = None  # type: ignore[assignment] # nothing is created
    load = Load(api, journal, "run", ["ns"], random.Random(0))  # noqa: S311 - nothing is drawn
    load.units["g"] = GANG
    return load


def test_a_row_is_printed_with_exactly_these_keys() -> None:
    assert list(GOOD.to_json()) == KEYS
    assert GOOD.to_json()["waitP99"] == 1.23


@pytest.mark.parametrize(
    ("row", "failures"),
    [
        (GOOD, []),
        (replace(GOOD, client_errors=3, ungated=2), []),
        (replace(GOOD, lost=1), ["lost is 1"]),
        (replace(GOOD, rejected=1), ["rejected is 1"]),
        (replace(GOOD, over_committed=2, gangs_split=1), ["overCommitted is 2", "gangsSplit is 1"]),
        (replace(GOOD, leader_exits=1), ["leaderExits is 1"]),
        (replace(GOOD, claims_left=1), ["claimsLeft is 1"]),
    ],
)
def test_five_numbers_must_be_zero_in_every_scenario(row: FaultRow, failures: list[str]) -> None:
    assert row.broken() == failures


def test_a_gang_that_runs_is_neither_lost_nor_split(load: Load, journal: Journal) -> None:
    for name, node in (("a", "n0"), ("b", "n1")):
        journal.take("ADDED", raw(name), 1)
        journal.take("MODIFIED", raw(name, node), 3)
    row = counted("any", load, journal, exits=0)
    assert row == FaultRow("any", 2, 0, 0, 0, 0, 0, 0, 2.0, 2.0, 0)


def test_who_waits_in_the_end_or_vanished_is_lost(load: Load, journal: Journal) -> None:
    journal.take("ADDED", raw("a"), 1)
    assert lost(load, journal) == {"g": 2}
    journal.take("MODIFIED", raw("a", "n0"), 2)
    assert lost(load, journal) == {"g": 1}
    journal.take("DELETED", raw("a", "n0"), 3)
    assert lost(load, journal) == {"g": 2}


def test_who_is_bound_runs_when_its_kubelet_says_so_and_is_lost_when_that_rejects_it() -> None:
    journal = Journal(CAPACITY, RACKS, has_kubelets=True)
    api: Api = None  # type: ignore[assignment] # nothing is created
    load = Load(api, journal, "run", ["ns"], random.Random(0))  # noqa: S311 - nothing is drawn
    load.units["g"] = GANG
    for name, node in (("a", "n0"), ("b", "n1")):
        journal.take("ADDED", raw(name, node), 1)
    assert lost(load, journal) == {"g": 2}
    journal.take("MODIFIED", raw("a", "n0", status={"phase": "Running"}), 2)
    journal.take("MODIFIED", raw("b", "n1", status={"phase": "Failed", "reason": "OutOfcpu"}), 2)
    journal.take("ADDED", raw("c", "n1"), 3)  # takes what the rejected one does not hold
    row = counted("any", load, journal, exits=0)
    assert (row.lost, row.rejected, row.over_committed) == (1, 1, 0)


def test_who_was_deleted_by_its_tenant_or_by_a_scenario_is_not_lost(load: Load, journal: Journal) -> None:
    journal.take("ADDED", raw("a", "n0"), 1)
    journal.take("ADDED", raw("b", "n1"), 1)
    journal.take("DELETED", raw("b", "n1"), 2)
    journal.excused.add("b")
    assert not lost(load, journal)
    load.deleted.add("g")
    journal.take("DELETED", raw("a", "n0"), 3)
    assert not lost(load, journal)


def test_a_jobs_pod_that_a_scenario_deleted_must_be_made_again(load: Load, journal: Journal) -> None:
    load.units["g"] = replace(GANG, kind=LoadKind.JOB)
    journal.take("ADDED", raw("a", "n0"), 1)
    journal.take("ADDED", raw("b", "n1"), 1)
    journal.take("DELETED", raw("b", "n1"), 2)
    journal.excused.add("b")
    assert lost(load, journal) == {"g": 1}


def test_a_gang_in_two_racks_is_split_and_so_is_one_of_which_too_few_started(load: Load, journal: Journal) -> None:
    journal.take("ADDED", raw("a"), 1)
    journal.take("ADDED", raw("b"), 1)
    assert split(load, journal) == []
    journal.take("MODIFIED", raw("a", "n0"), 1)
    assert split(load, journal) == [GANG]
    journal.take("MODIFIED", raw("b", "n1"), 2)
    assert split(load, journal) == []
    journal.take("MODIFIED", raw("c", "n2"), 3)
    assert split(load, journal) == [GANG]


def test_a_gang_with_a_pod_that_the_webhook_never_saw_is_not_judged(load: Load, journal: Journal) -> None:
    unseen = raw("a")
    del unseen["spec"]["schedulingGates"]
    journal.take("ADDED", unseen, 1)
    journal.take("MODIFIED", raw("a", "n0", ""), 1)
    assert split(load, journal) == []
    assert counted("any", load, journal, exits=0).ungated == 1


def test_pods_of_others_are_no_part_of_the_row_but_what_they_hold_is(load: Load, journal: Journal) -> None:
    journal.take("ADDED", raw("x", "n0", unit="hostile"), 1)
    journal.take("ADDED", raw("y", "n0", unit="hostile"), 1)
    row = counted("any", load, journal, exits=0)
    assert (row.created, row.over_committed) == (0, 1)


@pytest.mark.parametrize(("share", "value"), [(0.5, 2.0), (0.51, 3.0), (0.99, 4.0), (1.0, 4.0)])
def test_a_percentile_is_a_value_that_occurred(share: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], share) == value
    assert percentile([], share) == 0


def test_only_what_the_api_server_answers_with_is_a_clients_error(load: Load) -> None:
    denied = ApiError(403, "Forbidden", 'admission webhook "mutate.pods" denied the request')
    for error in (denied, ApiError(500, "InternalError", "failed calling webhook"), denied):
        load._count(error)
    load._count(ApiError(500, "InternalError", "etcdserver: request timed out"))
    load._count(None)
    assert load.refusals.total() == 3
    assert load.unanswered == 2


def begun(seed: int) -> list[Unit]:
    """The first units of a load."""
    return list(islice(drawn(random.Random(seed), ["a", "b"]), 200))  # noqa: S311 - repeatable


def test_the_load_is_the_same_for_the_same_seed_and_has_everything_in_it() -> None:
    units = begun(1)
    assert units == begun(1)
    assert units != begun(2)
    assert {unit.policy for unit in units if unit.kind is LoadKind.POD} == set(POLICIES)
    assert {(unit.kind, unit.racked) for unit in units} >= {
        (kind, on) for kind in (LoadKind.GANG, LoadKind.JOB) for on in (True, False)
    }
    assert any(unit.late for unit in units)
    assert {unit.namespace for unit in units} == {"a", "b"}
    assert len({unit.name for unit in units}) == 200


def test_the_page_has_every_scenario_every_column_and_a_place_for_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
    cases, counts = page.partition("## The figures")[::2]
    assert {name for name in SCENARIOS if f"`{name}`" in cases} == set(SCENARIOS)
    assert {name for name in COLUMNS[1:] if f"`{name}`" in counts} == set(COLUMNS[1:])
    assert "| leader-killed | 60 | 0 |" in with_rows(page, [GOOD])


def test_the_table_has_a_cell_for_each_number() -> None:
    assert list(COLUMNS) == KEYS
    assert cells(GOOD) == ("leader-killed", "60", "0", "0", "0", "0", "0", "0", "1.2 s", "5.7 s", "0", "0")


def test_a_row_with_a_count_that_must_be_zero_never_gets_into_a_page() -> None:
    page = "<!-- chaos: begin -->\n<!-- chaos: end -->"
    for name in ("lost", "rejected", "over_committed", "gangs_split", "leader_exits", "claims_left"):
        changes: dict[str, Any] = {name: 1}
        with pytest.raises(ValueError, match=r"^leader-killed: \w+ is 1$"):
            with_rows(page, [replace(GOOD, **changes)])


def test_the_rows_of_a_page_are_replaced_one_by_one_and_nothing_else() -> None:
    empty = "before\n<!-- chaos: begin -->\n<!-- chaos: end -->\nafter\n"
    later = replace(GOOD, scenario="hostile-tenant")
    both = with_rows(with_rows(empty, [later]), [GOOD])
    assert [line.split(" | ")[0] for line in both.splitlines()[2:6]] == [
        *("| scenario", "|---|---:|---:|---:|---:|---:|", "| leader-killed", "| hostile-tenant"),
    ]
    assert with_rows(both, [replace(GOOD, created=61)]) == both.replace("leader-killed | 60", "leader-killed | 61")
    assert both.startswith("before\n")
    assert both.endswith("\nafter\n")
