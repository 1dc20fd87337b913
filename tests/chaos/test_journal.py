"""The journal: a watch's events in, the history and its verdicts out."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.chaos.bed import capacity, fleet, physical_racks
from tests.chaos.journal import Journal
from tests.chaos.load import LoadKind, Unit
from tests.chaos.recorded import CAPACITY, RACKS, raw
from tests.cluster.audit import Slot


@pytest.fixture
def journal() -> Journal:
    return Journal(CAPACITY, RACKS)


def test_what_is_given_twice_at_one_moment_is_found_though_it_is_gone_in_the_end(journal: Journal) -> None:
    journal.take("ADDED", raw("a", "n0"), 1)
    journal.take("ADDED", raw("b", "n0", cpu=2), 2)
    journal.take("DELETED", raw("a", "n0"), 3)
    assert journal.over_committed == {Slot("n0", 0, "cpu"): Decimal(2)}


def test_what_is_given_again_after_its_pod_went_is_not_given_twice(journal: Journal) -> None:
    journal.take("ADDED", raw("a", "n0"), 1)
    journal.take("DELETED", raw("a", "n0"), 2)
    journal.take("ADDED", raw("b", "n0"), 3)
    journal.take("MODIFIED", raw("b", "n0"), 4)
    assert journal.over_committed == {}


def test_what_a_pod_had_whose_kubelet_says_that_it_ended_may_be_given_again(journal: Journal) -> None:
    journal.take("ADDED", raw("a", "n0"), 1)
    journal.take("MODIFIED", raw("a", "n0", status={"phase": "Failed"}), 2)
    journal.take("ADDED", raw("b", "n0"), 3)
    assert journal.over_committed == {}


def test_an_allocation_counts_when_its_pod_is_bound_and_not_before(journal: Journal) -> None:
    journal.take("ADDED", raw("a", "n0"), 1)
    journal.take("ADDED", raw("b", allocation="n0"), 2)
    assert journal.over_committed == {}
    journal.take("MODIFIED", raw("b", "n0"), 3)
    assert len(journal.over_committed) == 1


def test_an_allocation_of_another_node_or_none_means_that_the_pod_was_bound_unallocated(journal: Journal) -> None:
    for name, node, allocation in (("a", "n0", "n0"), ("b", "n1", "n0"), ("c", "n2", "")):
        journal.take("ADDED", raw(name, node, allocation), 1)
    assert [pod.name for pod in journal.pods() if pod.unallocated] == ["b", "c"]


def test_an_allocation_that_comes_after_the_binding_counts_but_does_not_undo_that_nobody_guarded_it(
    journal: Journal,
) -> None:
    journal.take("ADDED", raw("a", "n0", ""), 1)
    journal.take("MODIFIED", raw("a", "n0"), 2)
    (pod,) = journal.pods()
    assert pod.unallocated
    assert pod.holds == {Slot("n0", 0, "cpu"): Decimal(8)}


def test_a_gang_is_scattered_when_pods_are_in_two_racks_at_the_same_time(journal: Journal) -> None:
    journal.take("ADDED", raw("a", "n0"), 1)
    journal.take("ADDED", raw("b", "n1"), 2)
    journal.take("DELETED", raw("a", "n0"), 3)
    journal.take("DELETED", raw("b", "n1"), 3)
    journal.take("ADDED", raw("c", "n2"), 4)
    assert journal.scattered == {}
    journal.take("ADDED", raw("d", "n1"), 5)
    assert journal.scattered == {"g": {"rack-0", "rack-1"}}


def test_pods_that_a_new_list_does_not_have_are_gone(journal: Journal) -> None:
    journal.take("ADDED", raw("a", "n0"), 1)
    journal.take_list([raw("b", "n0")], 2)
    assert [pod.gone for pod in journal.pods()] == [True, False]
    assert journal.over_committed == {}


def test_times_are_those_of_the_first_sight_and_of_the_first_node(journal: Journal) -> None:
    journal.take("ADDED", raw("a"), 1)
    journal.take("MODIFIED", raw("a", "n0"), 4)
    journal.take("MODIFIED", raw("a", "n0"), 9)
    (pod,) = journal.pods()
    assert (pod.created, pod.bound) == (1, 4)
    assert pod.seen


def test_a_pod_that_comes_with_neither_gate_nor_placement_was_not_seen(journal: Journal) -> None:
    one = raw("a")
    del one["spec"]["schedulingGates"]
    journal.take("ADDED", one, 1)
    (pod,) = journal.pods()
    assert not pod.seen


def test_a_unit_has_run_when_all_its_pods_have_for_so_long(journal: Journal) -> None:
    unit = Unit("g", "ns", LoadKind.GANG, size=2, minimum=2)
    journal.take("ADDED", raw("a", "n0"), 1)
    assert not journal.has_run(unit, 0)
    journal.take("ADDED", raw("b", "n1"), 2)
    assert journal.has_run(unit, 0)
    assert not journal.has_run(unit, 1e12)


def test_the_fleet_has_a_rack_and_a_capacity_for_every_node() -> None:
    made = fleet()
    assert set(physical_racks(made)) == {slot.node for slot in capacity(made)}
    assert sum(amount for slot, amount in capacity(made).items() if slot.resource == "cpu") == 2048
