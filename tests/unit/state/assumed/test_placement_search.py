"""The NUMA nodes of pods, derived from what an NRT shows as taken."""

from collections.abc import Mapping, Sequence

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


def test_a_pod_is_where_what_it_holds_is_taken() -> None:
    assert places(node(0, 5), pod("a", 5, 0, 1)) == {"a": [1]}


def test_pods_of_different_sizes_are_told_apart() -> None:
    found = places(node(9, 12), pod("a", 3, 0, 1), pod("b", 5, 0, 1), pod("c", 6, 0, 1), pod("d", 7, 1))
    assert found == {"a": [0], "b": [1], "c": [0], "d": [1]}


def test_of_equal_pods_on_different_numa_nodes_nothing_is_known() -> None:
    assert places(node(5, 5), pod("a", 5, 0, 1), pod("b", 5, 0, 1)) == {"a": [0, 1], "b": [0, 1]}
    assert places(node(10, 0), pod("a", 5, 0, 1), pod("b", 5, 0, 1)) == {"a": [0], "b": [0]}


def test_one_that_is_known_tells_of_its_equal() -> None:
    assert places(node(5, 5), pod("a", 5, 0), pod("b", 5, 0, 1)) == {"a": [0], "b": [1]}


def test_no_place_remains_where_the_nrt_contradicts() -> None:
    assert places(node(5, 5), pod("a", 5, 0), pod("b", 5, 0)) == {"a": [], "b": []}


def test_nothing_is_proven_if_something_else_is_taken_or_not_all() -> None:
    assert places(node(5, 1), pod("a", 5, 0, 1)) is None
    assert places(node(4, 0), pod("a", 5, 0, 1)) is None


def test_what_no_manager_gives_away_does_not_count() -> None:
    free = [{"cpu": 11_000, "memory": 64}, {"cpu": 16_000, "memory": 64}]
    machine = topology(node="n", free=free, capacity={"cpu": 16_000, "memory": 64})
    holds = {"cpu": 5000, "memory": 8}
    both = [{numa_id: holds} for numa_id in (0, 1)]
    assert locate(machine, [Candidate("a", holds, both)]) == {"a": [{0: holds}]}


def test_of_a_pod_that_holds_nothing_of_what_counts_nothing_is_said() -> None:
    assert places(node(0, 0), pod("a", 5, 0)) == {}
    assert locate(node(5, 0), [pod("a", 5, 0, 1), Candidate("b", {"gpu": 1}, [{0: {"gpu": 1}}])]) == {
        "a": [on(0, 5)],
    }


def test_one_pod_may_have_any_shares_of_what_the_others_leave() -> None:
    wide = {0: {"cpu": 6000}, 1: {"cpu": 9000}}
    assert locate(node(12, 9), [anywhere("wide", 15), pod("a", 6, 0)]) == {"a": [on(0, 6)], "wide": [wide]}
    found = locate(node(12, 9), [anywhere("wide", 15), pod("a", 6, 0, 1)])
    assert found is not None
    assert [len(kept) for kept in found.values()] == [2, 2]


def test_two_that_may_have_any_shares_cannot_be_told_apart() -> None:
    assert locate(node(12, 9), [anywhere("a", 15), anywhere("b", 6)]) is None


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
