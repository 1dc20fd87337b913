"""Segments inside segments, compared with an exhaustive search on small clusters."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, combinations_with_replacement

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders.gangs import RACK, ZONE, gpus, group, podset, tree_of, whole_nodes
from tests.property.equal_groups import cut, domains
from tests.unit.engine.gang.assignments import assigned
from webhook.engine.gang.assignment_request import Effort
from webhook.engine.gang.equal_pods import EqualPlan, EqualPods, assign_equal
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, Segments
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.options import GangStrategy

NODES = 4
NODE = 3

paths = st.lists(
    st.tuples(st.sampled_from(["a", "a", "b", None]), st.sampled_from(["r1", "r2", None])), min_size=1, max_size=NODES
)
free_slots = st.lists(st.integers(0, 4), min_size=NODES, max_size=NODES)
constraints = st.sampled_from([ANYWHERE, Constraint(ZONE), Constraint(RACK), Constraint(None, RACK)])
levels = st.sampled_from([(ZONE, RACK), (ZONE, NODE), (RACK, NODE), (ZONE, RACK, NODE)])


@st.composite
def nested(draw: st.DrawFn) -> Segments:
    """Two or three layers, each size a multiple of the next."""
    chosen = draw(levels)
    smallest = draw(st.integers(1, 2))
    factors = draw(st.lists(st.integers(2, 3), min_size=len(chosen) - 1, max_size=len(chosen) - 1))
    found: Segments | None = None
    for level, size in zip(
        reversed(chosen), accumulate([smallest, *factors], lambda one, other: one * other), strict=True
    ):
        found = Segments(size, Constraint(level), 0, found)
    assert found is not None
    return found


def layers_of(segments: Segments) -> tuple[tuple[int, int], ...]:
    return tuple((layer.constraint.bound, layer.size) for layer in segments.layers())


class Everything:
    """All that is left on the nodes after pods in segments, by trying every domain for every segment."""

    def __init__(self, tree: TopologyTree, layers: Sequence[tuple[int, int]]) -> None:
        self._places = [[tuple(each) for each in domains(tree, level)] for level, _ in layers]
        self._sizes = [size for _, size in layers]
        self.left = cache(self._left)

    def _left(
        self, layer: int, count: int, inside: tuple[int, ...], slots: tuple[int, ...]
    ) -> frozenset[tuple[int, ...]]:
        if layer == len(self._sizes):
            return frozenset(_taken(slots, chosen) for chosen in combinations_with_replacement(inside, count)) - {()}
        states = {slots}
        places = [tuple(set(place) & set(inside)) for place in self._places[layer]]
        for piece in cut(count, self._sizes[layer]):
            states = {
                after
                for before in states
                for place in places
                if sum(before[position] for position in place) >= piece
                for after in self.left(layer + 1, piece, tuple(sorted(place)), before)
            }
        return frozenset(states)


def _taken(slots: tuple[int, ...], chosen: Sequence[int]) -> tuple[int, ...]:
    """The slots without those that are taken; () if there are too few."""
    left = list(slots)
    for position in chosen:
        left[position] -= 1
    return tuple(left) if min(left) >= 0 else ()


def is_held(tree: TopologyTree, slots: Sequence[int], count: int, segments: Segments, constraint: Constraint) -> bool:
    everything = Everything(tree, layers_of(segments))
    return any(
        everything.left(0, count, tuple(inside), tuple(slots)) for inside in domains(tree, constraint.bound or ROOT)
    )


def torn(tree: TopologyTree, positions: Sequence[int], segments: Segments) -> Iterator[tuple[int, int]]:
    """(level, number) of each segment that is in several domains, or in one without a label. positions: by rank."""
    for level, size in layers_of(segments):
        real = tree.real(level)
        for start in range(0, len(positions), size):
            used = {tree.containing(position, level) for position in positions[start : start + size]}
            if len(used) > 1 or not real[used.pop()]:
                yield level, start // size


def by_rank(plan: EqualPlan) -> list[int]:
    """The position of each pod."""
    order = sorted(
        range(len(plan.nodes.domains)),
        key=lambda at: sum(tail.start <= plan.nodes.domains[at] < tail.stop for tail in plan.tails),
    )
    return [int(plan.nodes.domains[at]) for at in order for _ in range(plan.nodes.amounts[at])]


@settings(max_examples=100, deadline=None)
@example(
    [("a", "r1"), ("a", "r2")],
    [3, 3, 0, 0],
    6,
    Segments(4, Constraint(ZONE), 0, Segments(2, Constraint(RACK))),
    ANYWHERE,
    GangStrategy.BIN_PACK,
)
@given(paths, free_slots, st.integers(1, 7), nested(), constraints, st.sampled_from(GangStrategy))
def test_equal_pods_have_a_place_exactly_if_there_is_one(
    where: list[tuple[str | None, str | None]],
    free: list[int],
    count: int,
    segments: Segments,
    constraint: Constraint,
    strategy: GangStrategy,
) -> None:
    tree = tree_of(where)
    slots = [free[node] for node in tree.order.tolist()]
    plan = assign_equal(tree, np.array(slots), EqualPods(count, count, constraint, segments, strategy))
    assert (plan is not None) == is_held(tree, slots, count, segments, constraint)
    if plan is not None:
        positions = by_rank(plan)
        assert len(positions) == count
        assert all(positions.count(position) <= slots[position] for position in positions)
        assert list(torn(tree, positions, segments)) == []


@settings(max_examples=50, deadline=None)
@given(paths, free_slots, st.integers(2, 6), nested(), constraints)
def test_of_an_elastic_gang_as_many_pods_have_a_place_as_possible(
    where: list[tuple[str | None, str | None]], free: list[int], count: int, segments: Segments, constraint: Constraint
) -> None:
    tree = tree_of(where)
    slots = [free[node] for node in tree.order.tolist()]
    plan = assign_equal(tree, np.array(slots), EqualPods(count, 1, constraint, segments))
    most = max((each for each in range(1, count + 1) if is_held(tree, slots, each, segments, constraint)), default=0)
    found = 0 if plan is None else int(plan.nodes.amounts.sum())
    # Whole segments come first: the largest ones that the required domain may hold in part.
    size = next((size for level, size in layers_of(segments) if level >= constraint.bound), 1)
    assert found == most or found == most - most % size > 0
    if plan is not None:
        assert list(torn(tree, by_rank(plan), segments)) == []


@settings(max_examples=50, deadline=None)
@given(paths, free_slots, st.integers(1, 7), nested(), st.integers(1, 3), st.sampled_from([0, 4]))
def test_with_a_leader_beside_them_too_by_the_greedy_and_by_the_exact_search(
    where: list[tuple[str | None, str | None]], free: list[int], count: int, segments: Segments, leader: int, tries: int
) -> None:
    places = {f"n{number}": path for number, path in enumerate(where)}
    state = whole_nodes(
        places=places, free={f"n{number}": {"nvidia.com/gpu": free[number]} for number in range(len(where))}
    )
    gang = group(
        podset(name="leader", of=gpus(leader), count=1),
        podset(name="worker", of=gpus(), count=count, segments=segments),
    )
    answer = assigned(state, gang, effort=Effort(domains=tries))
    tree = tree_of(where)
    slots = [free[node] for node in tree.order.tolist()]
    beside = (
        [*slots[:position], slots[position] - leader, *slots[position + 1 :]]
        for position in range(len(slots))
        if slots[position] >= leader
    )
    held = any(is_held(tree, left, count, segments, ANYWHERE) for left in beside)
    assert answer.assigned == held
    if held:
        (workers,) = (each for each in answer.assignments if each.podset.name == "worker")
        positions = answer.tree.positions()[workers.nodes[np.argsort(workers.members)]].tolist()
        assert list(torn(answer.tree, positions, segments)) == []


def test_the_exhaustive_search_finds_no_place_for_a_torn_segment() -> None:
    """One zone with room for six pods, three in each rack: two pairs, but not three."""
    tree = tree_of([("a", "r1"), ("a", "r2")])
    segments = Segments(6, Constraint(ZONE), 0, Segments(2, Constraint(RACK)))
    assert not is_held(tree, [3, 3], 6, segments, ANYWHERE)
    assert is_held(tree, [3, 4], 6, segments, ANYWHERE)
    assert is_held(tree, [3, 3], 5, segments, ANYWHERE)
    assert tree.span(Domain(ZONE, 0)) == slice(0, 2)
