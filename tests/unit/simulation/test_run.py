"""Runs on clusters of one or two nodes, worked out by hand."""

from collections.abc import Sequence
from typing import Any

from tests.builders.clusters import cluster_snapshot, machine
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound, container, plain
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.policy import NUMAPolicy
from webhook.simulation.run import MOST_RECREATED, RunResult, run
from webhook.simulation.run_metrics import Sample
from webhook.simulation.view import view_of
from webhook.simulation.workload import PodGroup, PodKind, Scenario, SimulatedWorkload
from webhook.state.rules import Rules

SINGLE = NUMAIntent(NUMAPolicy.SINGLE_NUMA_NODE, None, managed=True)


def kind(cpus: int, *, managed: bool = True, priority: int = 0) -> PodKind:
    return PodKind(Pod.from_object(plain(cpu=cpus, priority=priority)), SINGLE if managed else None)


def wants(name: str, of: PodKind, count: int = 1, at: float = 0.0, **more: Any) -> SimulatedWorkload:
    return SimulatedWorkload(name, at, (PodGroup(of, count),), **more)


def scenario(
    workloads: Sequence[SimulatedWorkload], *raws: dict[str, Any], seconds: float = 100.0, **more: Any
) -> Scenario:
    return Scenario(cluster_snapshot(*raws), workloads, Rules(), seconds, **more)


def times(result: RunResult) -> list[tuple[str, float | None, int]]:
    """(workload, start, rejections) of each wanted pod."""
    return [(pod.workload.name, pod.running, pod.rejected) for pod in result.pods]


# n ── [8 8]     [free of 16 CPUs per NUMA node]
HALF_FULL = machine(name="n", free=(8, 8))


def test_a_pod_that_fits_in_sum_only_is_rejected_until_nothing_changes_and_waits_with_the_webhook() -> None:
    given = scenario([wants("a", kind(10))], *HALF_FULL, recreations=3)
    without, with_it = (view_of(given, run(given, webhook=webhook)) for webhook in (False, True))
    # Created once, and recreated three times.
    assert (without.created, without.rejected, without.running, without.waiting) == (4, 4, 0, 1)
    assert (with_it.created, with_it.rejected, with_it.running, with_it.waiting) == (1, 0, 0, 1)


def test_a_rejected_pod_is_recreated_and_gets_the_room_that_another_leaves() -> None:
    # b holds NUMA node 0 until second 5. a is rejected at 1, 2, 3 and 4, and fits at 5.
    given = scenario(
        [wants("b", kind(10), run_seconds=5.0), wants("c", kind(10)), wants("a", kind(10), at=1.0)],
        *machine(name="n", free=(16, 16)),
    )
    without = run(given, webhook=False)
    assert times(without) == [("b", 0.0, 0), ("c", 0.0, 0), ("a", 5.0, 4)]
    assert times(run(given, webhook=True)) == [("b", 0.0, 0), ("c", 0.0, 0), ("a", 5.0, 0)]
    view = view_of(given, without)
    assert (view.p50, view.p99) == (0.0, 4.0)
    # 5 s of b, 100 s of c and 95 s of a, 10 CPUs each, of 32 CPUs for 100 s.
    assert view.utilisation == 0.625


def test_a_pod_without_a_controller_is_not_recreated() -> None:
    given = scenario([wants("a", kind(10), recreates=False)], *HALF_FULL)
    view = view_of(given, run(given, webhook=False))
    assert (view.created, view.rejected, view.running) == (1, 1, 0)


def test_recreation_pauses_until_the_cluster_changes_and_ends_after_a_bound() -> None:
    given = scenario([wants("a", kind(10)), wants("tiny", kind(1), at=50.0)], *HALF_FULL, recreations=2)
    assert times(run(given, webhook=False))[0] == ("a", None, 3 + 3)
    endless = scenario([wants("a", kind(10))], *HALF_FULL, seconds=1e6, recreations=1000)
    assert times(run(endless, webhook=False)) == [("a", None, MOST_RECREATED)]


def test_an_unmanaged_pod_is_rejected_with_the_webhook_too() -> None:
    given = scenario([wants("a", kind(10, managed=False))], *HALF_FULL, recreations=1)
    assert times(run(given, webhook=True)) == [("a", None, 2)]


def test_who_waits_is_tried_by_priority_then_by_age() -> None:
    workloads = [
        wants("first", kind(12), run_seconds=10.0),
        wants("old", kind(12), at=1.0),
        wants("urgent", kind(12, priority=5), at=2.0),
    ]
    given = scenario(workloads, *machine(name="n", free=(16, 0)))
    assert times(run(given, webhook=True)) == [("first", 0.0, 0), ("old", None, 0), ("urgent", 10.0, 0)]


def test_denied_workloads_exist_only_without_the_webhook() -> None:
    given = scenario([wants("a", kind(4), 2, denied=True)], *HALF_FULL)
    without, with_it = (view_of(given, run(given, webhook=webhook)) for webhook in (False, True))
    assert (without.running, without.denied) == (2, 0)
    assert (with_it.running, with_it.denied, with_it.waiting, with_it.created) == (0, 2, 0, 0)


def test_samples_show_what_running_pods_hold_from_each_change_on() -> None:
    workloads = [wants("a", kind(8), run_seconds=10.0), wants("b", kind(20), at=5.0)]
    given = scenario(workloads, *machine(name="n", free=(16, 16)))
    assert run(given, webhook=True).samples == (
        Sample(0.0, 0.25, 0),
        Sample(5.0, 0.25, 1),
        Sample(10.0, 0.0, 1),
    )


def test_what_ran_before_counts_as_in_use() -> None:
    before = bound(node="n", name="old", containers=[container(requests={"cpu": "16"})])
    given = scenario([wants("a", kind(8))], node(name="n"), nrt(node="n", free=(16, 16)), before)
    assert view_of(given, run(given, webhook=False)).utilisation == 0.75


def test_two_runs_are_equal() -> None:
    raws = [raw for number in range(5) for raw in machine(name=f"n{number}", free=(16, 8))]
    workloads = [wants(f"w{number}", kind(3 + number % 7), 3, run_seconds=7.0, at=number / 3) for number in range(20)]
    given = scenario(workloads, *raws)
    for webhook in (False, True):
        one, other = (run(given, webhook=webhook) for _ in range(2))
        assert times(one) == times(other)
        assert view_of(given, one) == view_of(given, other)


# n ── [16]     one NUMA node: 16 pods of one CPU fit
def test_workloads_of_one_time_are_created_side_by_side_one_pod_then_two_then_four() -> None:
    given = scenario(
        [wants("a", kind(1), 8), wants("b", kind(1), 3), wants("c", kind(1), 8)], *machine(name="n", free=(16,))
    )
    for webhook in (False, True):
        started = [name for name, running, _ in times(run(given, webhook=webhook)) if running is not None]
        # a, b, c; aa, bb, cc; aaaa, cccc (three fit), …
        assert [started.count(name) for name in "abc"] == [7, 3, 6], started
