"""Gangs in segments, including a smaller last segment, use the smallest number of domains, on small trees."""

from itertools import combinations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders.gangs import RACK, ZONE, tree_of
from webhook.engine.gang.equal_pods import EqualPods, assign_equal
from webhook.engine.gang.gang_spec import Constraint, Segments
from webhook.engine.topology.tree import Domain, TopologyTree

NODES = 7
NODE = 3

paths = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["r1", "r2", "r3"])), min_size=1, max_size=NODES
)
free_slots = st.lists(st.integers(0, 6), min_size=NODES, max_size=NODES)


@settings(max_examples=600, deadline=None)
# Two segments' room in one zone, one of two, and the smaller last one in the other: by whole segments they are equal.
@example(RACK, [("a", "r1"), ("b", "r1"), ("b", "r2")], [6, 6, 6, 0, 0, 0, 0], 7, 4, Constraint())
@example(NODE, [("a", "r1"), ("b", "r1"), ("b", "r2")], [6, 6, 6, 0, 0, 0, 0], 7, 4, Constraint())
@given(
    st.sampled_from([RACK, NODE]),
    paths,
    free_slots,
    st.integers(1, 14),
    st.integers(2, 4),
    st.sampled_from([Constraint(), Constraint(ZONE)]),
)
def test_fewest_zones_then_racks_then_nodes_are_used(
    level: int, where: list[tuple[str, str]], free: list[int], count: int, size: int, constraint: Constraint
) -> None:
    tree = tree_of(where)
    slots = np.array(free[: len(where)], dtype=np.int64)
    cutting = Segments(size, Constraint(level))
    plan = assign_equal(tree, slots, EqualPods(count, count, constraint, cutting))
    least = _least(tree, slots, count, cutting, constraint)
    assert (plan is None) == (least is None)
    if plan is not None:
        used = {tree.containing(position, level) for position in plan.nodes.domains.tolist()}
        assert _domains_used(tree, level, used) == least


def _least(
    tree: TopologyTree, slots: np.ndarray, count: int, cutting: Segments, constraint: Constraint
) -> tuple[int, ...] | None:
    """The least (zones, racks, nodes), down to the segments' level, that hold the gang, by trying all sets."""
    level, size = cutting.constraint.bound, cutting.size
    room = tree.sums(level, slots).tolist()
    found = [
        _domains_used(tree, level, set(chosen))
        for number in range(1, len(room) + 1)
        for chosen in combinations(range(len(room)), number)
        if _hold([room[domain] for domain in chosen], count, size)
    ]
    return min((used for used in found if constraint.required is None or used[0] == 1), default=None)


def _hold(rooms: list[int], count: int, size: int) -> bool:
    """Whether each segment fits into one of these domains."""
    segments, rest = divmod(count, size)
    whole = sum(room // size for room in rooms)
    return whole > segments or (whole == segments and any(room % size >= rest for room in rooms))


def _domains_used(tree: TopologyTree, level: int, used: set[int]) -> tuple[int, ...]:
    return tuple(
        len({tree.ancestor(Domain(level, domain), above) for domain in used}) for above in range(ZONE, level + 1)
    )
