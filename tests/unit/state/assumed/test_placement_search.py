"""The NUMA nodes of pods, derived from what an NRT shows as taken."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.records import cpus, topology
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.nrt import NodeTopology
from webhook.state.assumed.placement_search import Candidate, locate


def node(*taken: int) -> NodeTopology:
    """NUMA nodes of 16 CPUs. taken: of each."""
    return topology(node="n", free=cpus(*(16 - cpu for cpu in taken)), capacity={"cpu": 16_000})


def on(numa_id: int, cpu: int) -> NumaAmounts:
    return {numa_id: {"cpu": 1000 * cpu}}


def pod(name: str, cpu: int, *numa_ids: int) -> Candidate:
    """A pod with this many CPUs on one of these NUMA nodes."""
    return Candidate(name, {"cpu": 1000 * cpu}, [on(numa_id, cpu) for numa_id in numa_ids])


def anywhere(name: str, cpu: int) -> Candidate:
    return Candidate(name, {"cpu": 1000 * cpu}, None)


def places(topology: NodeTopology, *pods: Candidate) -> Mapping[str, Sequence[int]] | None:
    """The NUMA nodes that remain possible for each."""
    found = locate(topology, pods)
    return None if found is None else {name: sorted(max(place) for place in kept) for name, kept in found.items()}


@pytest.mark.parametrize(
    ("taken", "pods", "found"),
    [
        ((0, 5), [pod("a", 5, 0, 1)], {"a": [1]}),
        (
            (9, 12),
            [pod("a", 3, 0, 1), pod("b", 5, 0, 1), pod("c", 6, 0, 1), pod("d", 7, 1)],
            {"a": [0], "b": [1], "c": [0], "d": [1]},
        ),
        ((5, 5), [pod("a", 5, 0, 1), pod("b", 5, 0, 1)], {"a": [0, 1], "b": [0, 1]}),
        ((10, 0), [pod("a", 5, 0, 1), pod("b", 5, 0, 1)], {"a": [0], "b": [0]}),
        ((5, 5), [pod("a", 5, 0), pod("b", 5, 0, 1)], {"a": [0], "b": [1]}),
        ((5, 5), [pod("a", 5, 0), pod("b", 5, 0)], {"a": [], "b": []}),
        ((5, 1), [pod("a", 5, 0, 1)], None),
        ((4, 0), [pod("a", 5, 0, 1)], None),
        ((12, 9), [anywhere("a", 15), anywhere("b", 6)], None),
    ],
    ids=[
        "where what it holds is taken",
        "different sizes are told apart",
        "of equal ones on different NUMA nodes nothing is known",
        "but on one",
        "one that is known tells of its equal",
        "no place where the NRT contradicts",
        "something else is taken",
        "not all is taken",
        "two that may have any shares",
    ],
)
def test_the_numa_nodes_that_remain_possible_are_those_that_explain_what_is_taken(
    taken: tuple[int, ...], pods: list[Candidate], found: dict[str, list[int]] | None
) -> None:
    assert places(node(*taken), *pods) == found


def test_of_a_pod_that_holds_nothing_of_what_counts_nothing_is_said() -> None:
    assert places(node(0, 0), pod("a", 5, 0)) == {}
    assert locate(node(5, 0), [pod("a", 5, 0, 1), Candidate("b", {"gpu": 1}, [{0: {"gpu": 1}}])]) == {"a": [on(0, 5)]}


def test_one_pod_may_have_any_shares_of_what_the_others_leave() -> None:
    wide = {0: {"cpu": 6000}, 1: {"cpu": 9000}}
    assert locate(node(12, 9), [anywhere("wide", 15), pod("a", 6, 0)]) == {"a": [on(0, 6)], "wide": [wide]}
    found = locate(node(12, 9), [anywhere("wide", 15), pod("a", 6, 0, 1)])
    assert found is not None
    assert [len(kept) for kept in found.values()] == [2, 2]


def test_more_combinations_than_can_be_looked_at_prove_nothing() -> None:
    machine = topology(node="n", free=[{"cpu": 10**7 - 2**20 + 1}] * 2, capacity={"cpu": 10**7})
    many = [Candidate(f"p{n}", {"cpu": 2**n}, [{0: {"cpu": 2**n}}, {1: {"cpu": 2**n}}]) for n in range(1, 21)]
    assert locate(machine, many) is None
    assert locate(node(*[20] * 2), [pod(f"p{n}", 1, 0, 1) for n in range(40)]) is not None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=5), st.lists(st.integers(0, 9), min_size=2))
def test_pods_with_one_possible_placement_are_found_where_the_search_finds_them(
    pods: list[tuple[int, int]], taken: list[int]
) -> None:
    nrt = node(*taken[:2])
    once = [pod(f"p{number}", cpu, numa_id) for number, (numa_id, cpu) in enumerate(pods)]
    twice = [pod(f"p{number}", cpu, numa_id, numa_id) for number, (numa_id, cpu) in enumerate(pods)]
    found, searched = locate(nrt, once), locate(nrt, twice)
    assert found == (None if searched is None else {name: kept[:1] for name, kept in searched.items()})
