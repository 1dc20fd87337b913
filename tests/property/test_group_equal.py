"""Gangs of equal pods, compared with an exhaustive search on small trees."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders.gangs import RACK, ZONE, tree_of
from tests.property.equal_groups import constraints, domains, free_slots, holds, paths, segments
from webhook.engine.arrays import Amounts
from webhook.engine.gang.equal_pods import EqualPlan, EqualPods, assign_equal
from webhook.engine.gang.gang_spec import Constraint, Segments
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.options import GangStrategy


def check(tree: TopologyTree, slots: list[int], pods: EqualPods, plan: EqualPlan) -> int:
    """Check that a plan is valid. Returns how many pods it places."""
    amounts = dict(zip(plan.nodes.domains.tolist(), plan.nodes.amounts.tolist(), strict=True))
    assert all(0 < amount <= slots[position] for position, amount in amounts.items())
    span = tree.span(plan.domain)
    assert all(span.start <= position < span.stop for position in amounts)
    assert plan.domain.level >= pods.constraint.bound
    if pods.constraint.required is not None:
        assert tree.real(plan.domain.level)[plan.domain.number]
    assigned = sum(amounts.values())
    if pods.segments is not None and pods.segments.constraint.required is not None:
        seats = [position for position in sorted(amounts) for _ in range(amounts[position])]
        tail = plan.tails[0] if plan.tails else None
        if tail is not None:
            seats.sort(key=lambda position: tail.start <= position < tail.stop)
        for start in range(0, assigned, pods.segments.size):
            level = pods.segments.constraint.required
            here = {tree.containing(position, level) for position in seats[start : start + pods.segments.size]}
            assert len(here) == 1, "a segment is torn apart"
            assert tree.real(level)[here.pop()]
    return assigned


@settings(max_examples=400, deadline=None)
@given(paths, free_slots, st.integers(1, 7), constraints, segments, st.sampled_from(GangStrategy))
def test_a_group_is_placed_exactly_if_an_exhaustive_search_places_it(
    where: list[tuple[str | None, str | None]],
    free: list[int],
    count: int,
    constraint: Constraint,
    cutting: Segments | None,
    strategy: GangStrategy,
) -> None:
    tree = tree_of(where)
    slots = free[: len(where)]
    pods = EqualPods(count, count, constraint, cutting, strategy)
    plan = assign_equal(tree, np.array(slots, dtype=np.int64), pods)
    fits = [domain for domain in domains(tree, constraint.bound) if holds(tree, slots, domain, count, cutting)]
    assert (plan is not None) == bool(fits)
    if plan is not None:
        assert check(tree, slots, pods, plan) == count


@settings(max_examples=300, deadline=None)
@given(paths, free_slots, st.integers(1, 9), st.integers(0, 9), constraints, segments)
def test_an_elastic_group_is_placed_if_its_minimum_fits_and_as_many_whole_segments_as_one_domain_holds(
    where: list[tuple[str | None, str | None]],
    free: list[int],
    count: int,
    minimum: int,
    constraint: Constraint,
    cutting: Segments | None,
) -> None:
    tree = tree_of(where)
    slots = free[: len(where)]
    minimum = max(1, min(minimum, count))
    pods = EqualPods(count, minimum, constraint, cutting)
    plan = assign_equal(tree, np.array(slots, dtype=np.int64), pods)
    sizes = [
        size
        for size in range(minimum, count + 1)
        for domain in domains(tree, constraint.bound)
        if holds(tree, slots, domain, size, cutting)
    ]
    assert (plan is not None) == bool(sizes)
    if plan is not None:
        assigned = check(tree, slots, pods, plan)
        whole = [size for size in sizes if cutting is None or size == count or size % cutting.size == 0]
        assert assigned == max(whole or sizes) or (cutting is not None and cutting.constraint.preferred is not None)


@settings(max_examples=300, deadline=None)
@given(paths, free_slots, st.integers(1, 9), st.sampled_from([Constraint(None, RACK), Constraint(ZONE, RACK)]))
def test_a_preferred_level_gets_the_fewest_domains_there_can_be(
    where: list[tuple[str | None, str | None]], free: list[int], count: int, constraint: Constraint
) -> None:
    tree = tree_of(where)
    slots = free[: len(where)]
    plan = assign_equal(tree, np.array(slots, dtype=np.int64), EqualPods(count, count, constraint))
    if plan is None:
        return
    used = {tree.containing(position, RACK) for position in plan.nodes.domains.tolist()}
    fewest = min(
        _fewest_racks(tree, slots, domain, count)
        for level in constraint.levels()
        for domain in domains(tree, level)
        if level == plan.domain.level and sum(slots[position] for position in domain) >= count
    )
    assert len(used) == fewest


@settings(max_examples=300, deadline=None)
@given(paths, free_slots, st.integers(1, 12), st.sampled_from([Constraint(), Constraint(ZONE), Constraint(RACK)]))
def test_fewest_zones_then_racks_then_nodes_are_used(
    where: list[tuple[str | None, str | None]], free: list[int], count: int, constraint: Constraint
) -> None:
    tree = tree_of(where)
    slots = free[: len(where)]
    plan = assign_equal(tree, np.array(slots, dtype=np.int64), EqualPods(count, count, constraint))
    assert (plan is None) == (_least(tree, slots, constraint.bound, count) is None)
    if plan is not None:
        used = plan.nodes.domains.tolist()
        assert _domains_used(tree, used) == _least(tree, slots, constraint.bound, count)


def _domains_used(tree: TopologyTree, positions: Sequence[int]) -> tuple[int, ...]:
    return tuple(len({tree.containing(position, level) for position in positions}) for level in (ZONE, RACK, 3))


def _least(tree: TopologyTree, slots: list[int], bound: int, count: int) -> tuple[int, ...] | None:
    """The least (zones, racks, nodes) that hold the pods within one domain, by trying all sets of nodes."""
    found = [
        _domains_used(tree, nodes)
        for domain in domains(tree, bound)
        for size in range(len(domain) + 1)
        for nodes in combinations(domain, size)
        if sum(slots[node] for node in nodes) >= count
    ]
    return min(found, default=None)


def _fewest_racks(tree: TopologyTree, slots: list[int], inside: list[int], count: int) -> int:
    rooms: dict[int, int] = {}
    for position in inside:
        rack = tree.containing(position, RACK)
        rooms[rack] = rooms.get(rack, 0) + slots[position]
    most_first = sorted(rooms.values(), reverse=True)
    return next(k for k in range(len(most_first) + 1) if sum(most_first[:k]) >= count)


@settings(max_examples=200, deadline=None)
@given(paths, free_slots, st.integers(1, 6), constraints, st.data())
def test_running_members_pin_a_required_domain(
    where: list[tuple[str | None, str | None]], free: list[int], count: int, constraint: Constraint, data: st.DataObject
) -> None:
    tree = tree_of(where)
    slots = free[: len(where)]
    members = np.zeros(tree.n, dtype=np.int64)
    position = data.draw(st.integers(0, tree.n - 1))
    members[position] = 2
    pods = EqualPods(count, count, constraint, None, GangStrategy.BIN_PACK, members)
    plan = assign_equal(tree, np.array(slots, dtype=np.int64), pods)
    home = Domain(constraint.bound, tree.containing(position, constraint.bound))
    inside = tree.span(home)
    fits = sum(slots[inside]) >= count and tree.real(home.level)[home.number]
    assert (plan is not None) == bool(fits)
    if plan is not None and constraint.bound != ROOT:
        assert all(inside.start <= position < inside.stop for position in plan.nodes.domains.tolist())


small_racks = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 4), min_size=1, max_size=3)), min_size=1, max_size=7
)


# Both blocks hold the gang in two racks. Block a has it on one node less, but spread over three racks.
@example([("a", [2]), ("a", [2, 4, 3]), ("c", [1, 2, 2]), ("c", [4, 3]), ("c", [3]), ("a", [3, 3, 1])], 12)
@settings(max_examples=300)
@given(small_racks, st.integers(1, 20))
def test_of_the_fewest_racks_those_in_the_fewest_blocks_and_then_of_the_fewest_hosts_are_taken(
    racks: list[tuple[str, list[int]]], count: int
) -> None:
    paths = [(block, f"r{index}") for index, (block, nodes) in enumerate(racks) for _ in nodes]
    tree = tree_of(paths)
    slots = np.array([free for _, nodes in racks for free in nodes], dtype=np.int64)[tree.order]
    plan = assign_equal(tree, slots, EqualPods(count, count, Constraint(None, RACK)))
    levels = (RACK, ZONE, ROOT)  # the domains of the first level that hold the gang
    fitting = [[domain for domain in domains(tree, level) if slots[domain].sum() >= count] for level in levels]
    best = min((_fewest(tree, slots, domain, count) for domain in next(filter(None, fitting), [])), default=None)
    assert (plan is None) == (best is None)
    if plan is not None:
        used = plan.nodes.domains.tolist()
        assert (*(len({tree.containing(at, level) for at in used}) for level in (RACK, ZONE)), len(used)) == best


def _fewest(tree: TopologyTree, slots: Amounts, inside: Sequence[int], count: int) -> tuple[int, int, int]:
    """The least (racks, blocks, hosts) that hold the pods, by trying all sets of racks."""
    racks = sorted({tree.containing(at, RACK) for at in inside})
    found = []
    for size in range(1, len(racks) + 1):
        for chosen in combinations(racks, size):
            hosts = [at for at in inside if tree.containing(at, RACK) in chosen]
            held = np.cumsum(sorted(slots[hosts], reverse=True))
            if held[-1] >= count:
                blocks = len({tree.containing(at, ZONE) for at in hosts})
                found.append((size, blocks, 1 + int(np.count_nonzero(held < count))))
    return min(found)


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(0, 16), min_size=1, max_size=8), min_size=6, max_size=10), st.data())
def test_nor_are_there_more_blocks_where_the_sets_of_racks_are_too_many_to_try_all(
    blocks: list[list[int]], data: st.DataObject
) -> None:
    largest, everything = max(map(sum, blocks)), sum(map(sum, blocks))
    if largest == everything:
        return
    count = data.draw(st.integers(largest + 1, everything))
    tree = tree_of([(f"b{number}", f"r{rack}") for number, block in enumerate(blocks) for rack in range(len(block))])
    slots = np.array([room for block in blocks for room in block], dtype=np.int64)[tree.order]
    plan = assign_equal(tree, slots, EqualPods(count, count, Constraint(None, RACK)))
    assert plan is not None
    used = plan.nodes.domains.tolist()
    in_order = sorted((room for block in blocks for room in block), reverse=True)
    racks = 1 + int(np.count_nonzero(np.cumsum(in_order) < count))
    assert (len(used), len({tree.containing(at, ZONE) for at in used})) == (racks, _fewest_blocks(blocks, racks, count))


def _fewest_blocks(blocks: list[list[int]], racks: int, count: int) -> int:
    """The fewest blocks of which so many racks hold the pods: of each block the largest racks, block by block."""
    most = np.full((len(blocks) + 1, racks + 1), -1)  # [blocks, racks] -> pods
    most[0, 0] = 0
    for block in blocks:
        before = most.copy()
        for number, held in enumerate(np.cumsum(sorted(block, reverse=True))[:racks].tolist(), 1):
            reached = before[:-1, :-number]
            most[1:, number:] = np.maximum(most[1:, number:], np.where(reached < 0, -1, reached + held))
    return int(np.flatnonzero(most[:, racks] >= count)[0])
