"""An upgrade from the previous release by the commands of the docs, and a rollback to it, under a steady load."""

from __future__ import annotations

import tarfile
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.chaos.bed import Bed
from tests.chaos.run import play
from tests.chaos.scenarios import FaultScenario
from tests.cluster.documented import commands, type_in
from tests.cluster.gated import Pods, scheduler_paused
from tests.cluster.nodes import present
from tests.upgrade import previous
from tests.upgrade.standing import FULL, StandingPods
from webhook.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.chaos.faults import Stage

OPERATIONS = "docs/operations.md"
# The load lasts at least as long as the upgrade and the rollback.
SECONDS = 8.0


@pytest.fixture(scope="module")
def bed(programs: Mapping[str, Path], pytestconfig: pytest.Config) -> Iterator[Bed]:
    program = previous.find_program(pytestconfig.get_terminal_writer().line)
    # Default values: those of settings stand elsewhere in this release (CHANGELOG.md, "Values of 0.1.0").
    with Bed.made(programs, values={}, chart=previous.CHART, images={previous.VERSION: program}) as bed:
        yield bed


def test_the_kept_release_is_whole_and_older_than_this_source() -> None:
    with tarfile.open(previous.CHART) as chart:
        assert "topology-webhook/Chart.yaml" in chart.getnames()
    assert previous.WHEEL.name.split("-")[1] == previous.VERSION
    assert _number(previous.VERSION) < _number(VERSION)


def test_no_pod_is_refused_ungated_lost_or_moved_by_an_upgrade_or_a_rollback(
    bed: Bed, record_property: Callable[[str, object], None]
) -> None:
    scenario = FaultScenario("upgrade-between-releases", upgrade_and_rollback)
    outcome = play(bed, scenario, seconds=SECONDS, seed=0)
    record_property("upgrade", outcome.row.to_json())
    assert outcome.row.created
    assert (outcome.row.broken(), outcome.row.client_errors, outcome.row.ungated) == ([], 0, 0), outcome.notes


def upgrade_and_rollback(stage: Stage) -> None:
    """Change the release twice, with pods that wait, that are assigned and that run."""
    plane = stage.bed.plane
    pods = Pods(plane, stage.hostile)
    upgrade = partial(type_in, plane, *commands(OPERATIONS, "## Upgrade"))
    rollback = partial(type_in, plane, *commands(OPERATIONS, "## Roll back"))
    with present(plane.api, [FULL]):
        standing = StandingPods(pods, stage.run)
        standing.create()
        assert versions(stage.bed) == [previous.VERSION] * 2
        change(stage.bed, standing, upgrade, to=VERSION)
        standing.free_one_numa_node()
        change(stage.bed, standing, rollback, to=previous.VERSION)
        standing.complete_the_gang()
        plane.delete_namespace(stage.hostile)  # before the node, so that no pod is bound to a node that is gone


def change(bed: Bed, standing: StandingPods, command: Callable[[], None], *, to: str) -> None:
    """Run the command, then replace the leader and the other replica, as the Deployment would.

    The replica that is replaced last hands its Lease to one of the other release. At that moment a gang has its nodes
    and is not bound.
    """
    before = standing.as_they_are()
    command()
    first = bed.leader()
    (last,) = set(bed.webhook.replicas) - {first}
    with bed.held(first):
        bed.webhook.roll_out(first)
    bed.wait_until_served()
    assert bed.leader() is last
    with scheduler_paused(bed.plane):
        nodes = standing.assign(f"assigned-{to}")
        with bed.held(last):
            bed.webhook.roll_out(last)
        bed.wait_until_served()
        assert bed.leader() is first
    assert versions(bed) == [to] * 2
    bed.plane.wait_for("the assigned gang to be bound", lambda: standing.bound(f"assigned-{to}"))
    assert standing.bound_nodes(f"assigned-{to}") == nodes
    after = standing.as_they_are()
    assert {name: after.get(name) for name in before} == before


def versions(bed: Bed) -> list[str]:
    """The release of each replica, by its own word."""
    infos = [name for replica in bed.webhook.replicas for name in replica.metrics() if "_build_info{" in name]
    return [info.partition('version="')[2].partition('"')[0] for info in infos]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
