"""A short round of some scenarios, or all (`long`). `python -m tests.chaos` checks the times as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.bed import Bed
from tests.chaos.real_bed import RealBed, machines
from tests.chaos.run import play
from tests.chaos.scenarios import SCENARIOS
from tests.cluster.real_kubelets import ImpossibleError, require_possible
from tests.cluster.up import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.chaos.run import FaultRun
    from tests.chaos.scenarios import FaultScenario

# A leader that is paused stays so for 7 s, longer than its Lease; the rest of the time others go on creating.
SECONDS = 8.0
REAL_SECONDS = 20.0
"""A pod runs a second or two after it was bound, and machines need some before their kubelets end."""
SEED = 0


@pytest.fixture(scope="module")
def bed(programs: Mapping[str, Path]) -> Iterator[Bed]:
    """One control plane for all scenarios. What is killed is started again before the next one."""
    with Bed.made(programs) as bed:
        yield bed


# One for each kind of fault: a replica, the API server, an API that is gone, a tenant. tests/upgrade plays a rollout.
SHORT = {"leader-killed", "api-server-killed", "nrt-crd-deleted", "hostile-tenant"}


@pytest.fixture(scope="module")
def real_bed(programs: Mapping[str, Path]) -> Iterator[Bed]:
    """The same with real kubelets."""
    try:
        require_possible(len(machines()))
    except ImpossibleError as error:
        pytest.skip(str(error))
    with RealBed.with_kubelets(programs, tell) as bed:
        yield bed


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(scenario, id=name, marks=() if name in SHORT else pytest.mark.long)
        for name, scenario in SCENARIOS.items()
        if not scenario.is_real
    ],
)
def test_nothing_is_lost_given_twice_or_split_and_no_replica_exits(
    bed: Bed, scenario: FaultScenario, record_property: Callable[[str, object], None]
) -> None:
    check(play(bed, scenario, seconds=SECONDS, seed=SEED), record_property)


@pytest.mark.long
@pytest.mark.parametrize(
    "scenario", [pytest.param(scenario, id=name) for name, scenario in SCENARIOS.items() if scenario.is_real]
)
def test_nor_does_a_real_kubelet_reject_a_pod(
    real_bed: Bed, scenario: FaultScenario, record_property: Callable[[str, object], None]
) -> None:
    check(play(real_bed, scenario, seconds=REAL_SECONDS, seed=SEED), record_property)


def check(outcome: FaultRun, record_property: Callable[[str, object], None]) -> None:
    record_property("chaos", outcome.row.to_json())
    assert outcome.row.created
    assert outcome.row.broken() == [], "\n".join(outcome.notes)
