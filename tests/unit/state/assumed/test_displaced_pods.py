"""Pods that may be on other NUMA nodes than replayed, because room came free before they arrived."""

import pytest

from tests.builders.records import cpus, topology
from webhook.formats.nrt import NodeTopology
from webhook.state.assumed.bound_hints import Arrived, displaced

MACHINE = topology(node="n", free=cpus(16, 16, 16))


def pod(
    name: str, numa_id: int, cpu: int, *, certain: bool = False, uncertain: bool = False, late: bool = True
) -> Arrived:
    return Arrived(name, {numa_id: {"cpu": 1000 * cpu}}, certain, uncertain, late)


def others(*arrived: Arrived, room: int = 0, machine: NodeTopology = MACHINE) -> dict[str, list[int]]:
    return {name: sorted(ids) for name, ids in displaced(arrived, [room], machine).items()}


def test_one_that_arrived_later_may_have_found_the_room() -> None:
    assert others(pod("a", 1, 5)) == {"a": [0]}
    assert others(pod("a", 1, 5, late=False)) == {}


def test_more_room_makes_no_kubelet_prefer_a_higher_numa_node() -> None:
    assert others(pod("a", 1, 5), room=2) == {}
    assert others(pod("a", 1, 5), room=1) == {}


def test_there_must_be_room_enough_beside_those_that_came_before() -> None:
    # What came free is not more than 16 - 12.
    before = pod("a", 0, 12, late=False)
    assert others(before, pod("b", 1, 5)) == {}
    assert others(before, pod("b", 1, 4)) == {"b": [0]}


def test_those_in_doubt_take_no_room_for_certain() -> None:
    assert others(pod("a", 0, 12, uncertain=True, late=False), pod("b", 1, 5)) == {"b": [0]}


def test_what_an_nrt_has_shown_is_so() -> None:
    assert others(pod("a", 1, 5, certain=True)) == {}


@pytest.mark.parametrize("late", [True, False])
def test_one_that_came_after_a_displaced_one_may_have_found_what_that_left(late: bool) -> None:
    # a (10) is on 1, or found room on 0. Then b (10), of which 2 was replayed, may be on 1; on 0 only if a is not.
    found = others(pod("a", 1, 10), pod("b", 2, 10, late=late))
    assert found == {"a": [0], "b": [0, 1] if late else [1]}


def test_one_whose_room_may_have_been_taken_may_be_anywhere_with_room() -> None:
    # a (10) may have come to 0, where b (10) was replayed.
    assert others(pod("a", 1, 10), pod("b", 0, 10, late=False)) == {"a": [0], "b": [1, 2]}
    assert others(pod("a", 1, 10), pod("b", 0, 6, late=False)) == {"a": [0]}


def test_one_over_several_numa_nodes_may_take_something_of_any() -> None:
    wide = Arrived("a", {1: {"cpu": 16_000}, 2: {"cpu": 4000}}, certain=False, uncertain=False, may_find=True)
    assert displaced([wide], [0], MACHINE) == {"a": frozenset({0})}
