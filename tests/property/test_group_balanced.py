"""Balanced gangs use as few domains as possible, and share the pods among them as evenly as any choice can."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.gangs import RACK, ZONE, tree_of
from tests.property.equal_groups import constraints, paths
from webhook.engine.gang.distribution import Share, SubDomains
from webhook.engine.gang.equal_pods import EqualPlan, EqualPods, assign_equal, share_evenly
from webhook.engine.gang.gang_spec import Constraint, Segments
from webhook.engine.topology.tree import TopologyTree
from webhook.model.options import GangStrategy

NODES = 7
NODE = 3

rooms = st.lists(st.integers(0, 9), min_size=NODES, max_size=NODES)


def filled(room: list[int], wanted: int) -> tuple[int, int]:
    """The (smallest, largest) share if these are filled one pod at a time, always the one that has fewest."""
    shares = [0] * len(room)
    for _ in range(wanted):
        at = min((share, at) for at, share in enumerate(shares) if share < room[at])[1]
        shares[at] += 1
    return min(shares), max(shares)


def most_even(room: list[int], wanted: int) -> tuple[int, int, int]:
    """(number, -smallest, largest share) of the best choice, by trying all."""
    return min(
        (number, -filled(held, wanted)[0], filled(held, wanted)[1])
        for number in range(1, len(room) + 1)
        for chosen in combinations(range(len(room)), number)
        if min(held := [room[at] for at in chosen]) > 0 and sum(held) >= wanted
    )


def seen(amounts: list[int]) -> tuple[int, int, int]:
    return len(amounts), -min(amounts), max(amounts)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=3), st.data())
def test_each_domain_is_shared_as_evenly_as_any_choice_can(racks: list[list[int]], data: st.DataObject) -> None:
    racks = [room for room in racks if sum(room)] or [[1]]
    tree = tree_of([("a", f"r{number}") for number, room in enumerate(racks) for _ in room])
    wanted = np.array([data.draw(st.integers(1, sum(room))) for room in racks])
    slots = np.array([slots for room in racks for slots in room])
    share = share_evenly(tree, Share(np.arange(len(racks)), wanted), RACK, SubDomains(NODE, slots), joint=False)
    assert (share.amounts <= slots[share.domains]).all()
    start = 0
    for room, amount in zip(racks, wanted.tolist(), strict=True):
        inside = (share.domains >= start) & (share.domains < start + len(room))
        start += len(room)
        assert share.amounts[inside].sum() == amount
        assert seen(share.amounts[inside].tolist()) == most_even(room, amount)


@settings(max_examples=200, deadline=None)
@given(
    paths,
    rooms,
    st.integers(1, 14),
    constraints,
    st.none() | st.builds(Segments, st.integers(2, 4), st.just(Constraint(RACK))),
)
def test_balanced_fits_wherever_bin_pack_does(
    where: list[tuple[str | None, str | None]],
    free: list[int],
    count: int,
    constraint: Constraint,
    segments: Segments | None,
) -> None:
    tree = tree_of(where)
    slots = np.array(free[: len(where)])
    plans = [
        assign_equal(tree, slots, EqualPods(count, count, constraint, segments, strategy))
        for strategy in (GangStrategy.BIN_PACK, GangStrategy.BALANCED)
    ]
    assert (plans[0] is None) == (plans[1] is None)
    packed, balanced = plans
    if packed is not None and balanced is not None:
        assert balanced.domain.level == packed.domain.level
        assert balanced.nodes.amounts.sum() == count
        assert (balanced.nodes.amounts <= slots[balanced.nodes.domains]).all()
        if segments is not None:
            held = tree.sums(RACK, pods_at(tree, balanced))
            assert np.count_nonzero(held % segments.size) <= (count % segments.size > 0)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 30), st.integers(1, 4))
def test_segments_are_shared_evenly(racks: list[int], count: int, size: int) -> None:
    """The smaller last segment is in the domain that has fewest others."""
    tree = tree_of([("a", f"r{number}") for number in range(len(racks))])
    pods = EqualPods(count, count, Constraint(ZONE), Segments(size, Constraint(RACK)), GangStrategy.BALANCED)
    plan = assign_equal(tree, np.array(racks), pods)
    needed, room = -(-count // size), [slots // size for slots in racks]
    if sum(room) >= needed:
        assert plan is not None
        segments = -(-pods_at(tree, plan) // size)
        # The last one may also go where there is no room for a whole one.
        assert seen([held for held in segments.tolist() if held]) <= most_even(room, needed)


def pods_at(tree: TopologyTree, plan: EqualPlan) -> np.ndarray:
    pods = np.zeros(tree.n, dtype=np.int64)
    pods[plan.nodes.domains] = plan.nodes.amounts
    return pods
