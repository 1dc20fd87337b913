"""A short round of some scenarios, or all (`long`). `python -m tests.chaos` checks the times as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.bed import Bed
from tests.chaos.run import play
from tests.chaos.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.chaos.scenarios import Scenario

# A leader that is paused stays so for 7 s, longer than its Lease; the rest of the time others go on creating.
SECONDS = 8.0
SEED = 0


@pytest.fixture(scope="module")
def bed(programs: Mapping[str, Path]) -> Iterator[Bed]:
    """One control plane for all scenarios. What is killed is started again before the next one."""
    with Bed.made(programs) as bed:
        yield bed


# One for each kind of fault: a replica, the API server, an API that is gone, a tenant. tests/upgrade plays a rollout.
SHORT = {"leader-killed", "api-server-killed", "nrt-crd-deleted", "hostile-tenant"}


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(scenario, id=name, marks=() if name in SHORT else pytest.mark.long)
        for name, scenario in SCENARIOS.items()
    ],
)
def test_nothing_is_lost_given_twice_or_split_and_no_replica_exits(
    bed: Bed, scenario: Scenario, record_property: Callable[[str, object], None]
) -> None:
    outcome = play(bed, scenario, seconds=SECONDS, seed=SEED)
    record_property("chaos", outcome.row.to_json())
    assert outcome.row.created
    assert outcome.row.broken() == [], "\n".join(outcome.notes)
