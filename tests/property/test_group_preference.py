"""Gangs with preferred nodes, compared with an exhaustive search on small trees."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.gangs import RACK, ZONE, tree_of
from tests.property.equal_groups import constraints, cut, domains, free_slots, holds, paths, segments
from webhook.engine.filter.node_preference import MOST
from webhook.engine.gang.equal_pods import EqualPlan, EqualPods, assign_equal
from webhook.engine.gang.gang_spec import Constraint, Segments
from webhook.engine.topology.tree import TopologyTree
from webhook.model.options import GangStrategy

likings = st.lists(st.sampled_from([0, 0, 100, MOST, MOST]), min_size=7, max_size=7)
Paths = list[tuple[str | None, str | None]]


def plan_of(
    tree: TopologyTree,
    free: list[int],
    liked: list[int] | None,
    count: int,
    constraint: Constraint,
    cutting: Segments | None = None,
    strategy: GangStrategy = GangStrategy.BIN_PACK,
) -> EqualPlan | None:
    slots = np.array(free[: tree.n], dtype=np.int64)
    preference = None if liked is None else np.array(liked[: tree.n], dtype=np.int64)
    return assign_equal(tree, slots, EqualPods(count, count, constraint, cutting, strategy, None, preference))


def used(tree: TopologyTree, plan: EqualPlan) -> tuple[int, ...]:
    """The numbers of zones, racks and nodes."""
    positions = plan.nodes.domains.tolist()
    return tuple(len({tree.containing(position, level) for position in positions}) for level in (ZONE, RACK, 3))


@settings(max_examples=400, deadline=None)
@given(paths, free_slots, likings, st.integers(1, 9), constraints, segments)
def test_a_preference_costs_no_zone_no_rack_and_no_node(
    where: Paths, free: list[int], liked: list[int], count: int, constraint: Constraint, cutting: Segments | None
) -> None:
    tree = tree_of(where)
    plain = plan_of(tree, free, None, count, constraint, cutting)
    preferring = plan_of(tree, free, liked, count, constraint, cutting)
    assert (plain is None) == (preferring is None)
    if plain is None or preferring is None:
        return
    assert preferring.nodes.amounts.sum() == count
    assert preferring.domain.level == plain.domain.level
    if cutting is None:
        assert used(tree, preferring) == used(tree, plain)


@settings(max_examples=400, deadline=None)
@given(paths, free_slots, likings, st.integers(1, 9))
def test_in_a_rack_the_least_preferred_node_is_preferred_as_much_as_can_be(
    where: Paths, free: list[int], liked: list[int], count: int
) -> None:
    tree = tree_of(where)
    plan = plan_of(tree, free, liked, count, Constraint(RACK))
    if plan is None:
        return
    nodes = plan.nodes.domains.tolist()
    rack = tree.domains(RACK) == tree.containing(nodes[0], RACK)
    choices = [
        choice
        for choice in combinations(np.flatnonzero(rack).tolist(), len(nodes))
        if sum(free[position] for position in choice) >= count and all(free[position] for position in choice)
    ]
    assert min(liked[position] for position in nodes) == max(min(liked[one] for one in choice) for choice in choices)


# With Balanced even counts come first.
@settings(max_examples=400, deadline=None)
@given(paths, free_slots, likings, st.integers(1, 9), st.sampled_from([GangStrategy.BIN_PACK, GangStrategy.SPREAD]))
def test_if_a_rack_has_only_preferred_nodes_for_the_group_it_gets_those(
    where: Paths, free: list[int], liked: list[int], count: int, strategy: GangStrategy
) -> None:
    tree = tree_of(where)
    plan = plan_of(tree, free, liked, count, Constraint(RACK), None, strategy)
    if plan is None:
        return
    few = len(plan.nodes.domains)
    best = [
        choice
        for rack in domains(tree, RACK)
        for choice in combinations(rack, few)
        if sum(free[position] for position in choice) >= count
        and all(liked[position] == MOST and free[position] for position in choice)
        and _fewest(free, rack, count) == few
    ]
    if best:
        assert all(liked[position] == MOST for position in plan.nodes.domains.tolist())


def _fewest(free: list[int], inside: list[int], count: int) -> int:
    rooms = sorted((free[position] for position in inside), reverse=True)
    return next(k for k in range(len(rooms) + 1) if sum(rooms[:k]) >= count)


@settings(max_examples=200, deadline=None)
@given(paths, free_slots, st.integers(1, 9), constraints, segments, st.sampled_from(GangStrategy))
def test_where_all_nodes_are_preferred_alike_nothing_changes(
    where: Paths,
    free: list[int],
    count: int,
    constraint: Constraint,
    cutting: Segments | None,
    strategy: GangStrategy,
) -> None:
    tree = tree_of(where)
    plain = plan_of(tree, free, None, count, constraint, cutting, strategy)
    alike = plan_of(tree, free, [300] * 7, count, constraint, cutting, strategy)
    assert (plain is None) == (alike is None)
    if plain is not None and alike is not None:
        assert plain.domain == alike.domain
        assert plain.nodes.domains.tolist() == alike.nodes.domains.tolist()
        assert plain.nodes.amounts.tolist() == alike.nodes.amounts.tolist()


@settings(max_examples=200, deadline=None)
@given(paths, free_slots, likings, st.integers(1, 7), constraints, segments)
def test_a_group_that_prefers_nodes_is_placed_exactly_if_an_exhaustive_search_places_it(
    where: Paths, free: list[int], liked: list[int], count: int, constraint: Constraint, cutting: Segments | None
) -> None:
    tree = tree_of(where)
    plan = plan_of(tree, free, liked, count, constraint, cutting)
    slots = free[: len(where)]
    fits = [domain for domain in domains(tree, constraint.bound) if holds(tree, slots, domain, count, cutting)]
    assert (plan is not None) == bool(fits)
    if plan is None:
        return
    amounts = dict(zip(plan.nodes.domains.tolist(), plan.nodes.amounts.tolist(), strict=True))
    assert all(0 < amount <= slots[position] for position, amount in amounts.items())
    if cutting is not None and cutting.constraint.required is not None:
        seats = [position for position in sorted(amounts) for _ in range(amounts[position])]
        tail = plan.tails[0] if plan.tails else None
        if tail is not None:
            seats.sort(key=lambda position: tail.start <= position < tail.stop)
        level, start = cutting.constraint.required, 0
        for size in cut(count, cutting.size):
            assert len({tree.containing(position, level) for position in seats[start : start + size]}) == 1
            start += size
