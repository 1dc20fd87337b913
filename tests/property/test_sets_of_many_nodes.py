"""Sets of NUMA nodes are found alike whichever way their number of nodes selects, and early results equal late ones."""

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.short_ways import BEST_EFFORT, requested, snapshots, wide_pods
from tests.unit.engine.whole_way import whole_way
from webhook.engine import kubelet
from webhook.engine.arrays import all_nodes
from webhook.engine.kubelet import policy_best_effort, policy_restricted
from webhook.engine.kubelet.hints import Row
from webhook.engine.kubelet.policy_restricted import lowest_sets
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import Pod

MANY = 1 << 30
LIMITS = {"all at once": (MANY, MANY), "few ruled out first": (0, MANY), "one set after the other": (0, 0)}
"""Sets times nodes up to which nothing is ruled out first, and up to which all sets are summed at once."""


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    """CPUs and memory on up to 40 nodes of equal NUMA nodes; amounts up to a quarter of int64."""
    z, n = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    rows = []
    for memory in (False, True):
        unit = draw(st.sampled_from((1, 1000, 2**55)))
        free = draw(st.lists(st.integers(0, 8), min_size=z * n, max_size=z * n))
        amount = unit * draw(st.integers(1, 8 * z))
        capacity = np.full((z, n), 8 * unit, dtype=np.int64)
        rows.append(Row(amount, capacity, np.array(free, dtype=np.int64).reshape(z, n) * unit, memory))
    return rows


@settings(max_examples=150, deadline=None)
@given(row_lists(), st.integers(1, 6), st.booleans(), st.sampled_from(sorted(LIMITS)))
def test_the_lowest_sets_equal_those_of_a_plain_loop(rows: list[Row], width: int, grouped: bool, limits: str) -> None:
    z, n = rows[0].free.shape
    width = min(width, z)
    few, at_once = LIMITS[limits]
    with patch.multiple(policy_restricted, _FEW=few, _AT_ONCE=at_once):
        found = lowest_sets(rows, width, all_nodes(n), grouped=grouped)
    assert found.tolist() == [_lowest_set(rows, width, node, grouped) for node in range(n)]


def _lowest_set(rows: list[Row], width: int, node: int, grouped: bool) -> int:
    z = len(rows[0].free)
    for mask in range(1, 1 << z):
        members = [position for position in range(z) if mask >> position & 1]
        enough = all(sum(int(row.free[position, node]) for position in members) >= row.amount for row in rows)
        used = any(
            row.memory and row.free[position, node] != row.capacity[position, node]
            for row in rows
            for position in members
        )
        if len(members) == width and enough and not (grouped and used):
            return mask
    return 0


@settings(max_examples=100, deadline=None)
@given(snapshots((BEST_EFFORT,), most=8), wide_pods())
def test_bounds_hold_where_the_search_ends_early(snapshot: Snapshot, wanted: Pod) -> None:
    request = requested(snapshot, wanted)
    with patch.object(policy_best_effort, "_ENOUGH_KNOWN", 1):
        fit = kubelet.predict(snapshot, request)
        bounds = [] if fit.wide is None else fit.wide.at_least.tolist()
    for place, bound in enumerate(bounds):
        n = int(fit.wide.nodes[place]) if fit.wide is not None else 0
        _, mask = whole_way(snapshot, request, n)
        assert bound <= mask.bit_count()
        assert fit.mask[n] == mask


def test_a_set_of_more_numa_nodes_than_a_node_has_is_none() -> None:
    free = np.zeros((1, 1), dtype=np.int64)
    rows = [Row(2, free, free, memory=False)]
    assert lowest_sets(rows, 2, np.array([0]), grouped=True).tolist() == [0]
