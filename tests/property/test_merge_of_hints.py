from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.hints import Hint, merge_hints
from webhook.engine.kubelet.bitmask import distance_sums, intersections, subset_sums, subsets_of
from webhook.model.policy import NUMAPolicy

Z = 3
NODES = tuple(range(Z))
SETS = [tuple(node for node in NODES if mask >> node & 1) for mask in range(1 << Z)]

hints = st.builds(Hint, st.none() | st.sampled_from(SETS[1:]), st.booleans())
lists = st.none() | st.lists(hints, max_size=5, unique=True)
providers = st.lists(st.dictionaries(st.sampled_from(("cpu", "memory", "gpu")), lists, max_size=2), max_size=3)
tables = st.lists(st.lists(st.integers(0, 30), min_size=Z, max_size=Z), min_size=Z, max_size=Z)


def brute_force(
    policy: NUMAPolicy, given_lists: list[list[Hint]], distances: list[list[int]] | None
) -> tuple[Hint, bool]:
    """Merge by walking the whole cross product."""
    single = policy is NUMAPolicy.SINGLE_NUMA_NODE
    if single:
        given_lists = [
            [hint for hint in one if hint.preferred and (hint.mask is None or len(hint.mask) == 1)]
            for one in given_lists
        ]
    narrowest = [min((len(hint.mask) for hint in one if hint.mask is not None), default=0) for one in given_lists]
    target = max(narrowest, default=0)

    def rank(hint: Hint) -> tuple[bool, int, float, int]:
        mask = hint.mask or ()
        width = len(mask)
        if not hint.preferred:
            width = target - width if width <= target else width
        apart = 0.0
        if distances is not None and not single:
            apart = sum(distances[left][right] for left in mask for right in mask) / len(mask) ** 2
        return not hint.preferred, width, apart, sum(1 << node for node in mask)

    merged = []
    for combination in product(*given_lists):
        masks = [set(hint.mask) for hint in combination if hint.mask is not None]
        together = tuple(sorted(set(NODES).intersection(*masks)))
        alike = all(mask == masks[0] for mask in masks)
        if together:
            merged.append(Hint(together, preferred=alike and all(hint.preferred for hint in combination)))
    best = min(merged, key=rank, default=Hint(NODES, preferred=False))
    admitted = best.preferred or policy is NUMAPolicy.BEST_EFFORT
    if single and best.mask == NODES:
        best = Hint(None, best.preferred)
    return best, admitted


@given(st.sampled_from(list(NUMAPolicy)[1:]), providers, st.none() | tables)
def test_the_merge_is_the_best_of_the_whole_cross_product(
    policy: NUMAPolicy, given_providers: list[dict[str, list[Hint] | None]], distances: list[list[int]] | None
) -> None:
    plain = [
        one or [Hint(None, preferred=one is None)]
        for provider in given_providers
        for one in (provider or {"": None}).values()
    ]
    assert merge_hints(policy, NODES, given_providers, distances) == brute_force(policy, plain, distances)


masks = st.lists(st.booleans(), min_size=1 << Z, max_size=1 << Z).map(lambda bits: np.array(bits)[:, None])
amounts = st.lists(st.integers(0, 2**60), min_size=Z, max_size=Z).map(lambda sizes: np.array(sizes)[:, None])


@given(masks, masks)
def test_the_intersections_are_those_of_all_pairs(left: np.ndarray, right: np.ndarray) -> None:
    pairs = {a & b for a in np.flatnonzero(left).tolist() for b in np.flatnonzero(right).tolist()}
    assert set(np.flatnonzero(intersections(left, right)).tolist()) == pairs


@given(amounts)
def test_a_sum_over_a_mask_is_the_sum_over_its_numa_nodes(sizes: np.ndarray) -> None:
    assert subset_sums(sizes)[:, 0].tolist() == [sum(int(sizes[node, 0]) for node in chosen) for chosen in SETS]


@given(st.lists(st.booleans(), min_size=Z, max_size=Z))
def test_a_mask_is_allowed_if_each_of_its_numa_nodes_is(allowed: list[bool]) -> None:
    table = subsets_of(np.array(allowed)[:, None])[:, 0]
    assert table.tolist() == [all(allowed[node] for node in chosen) for chosen in SETS]


@given(st.lists(st.lists(st.integers(0, 2**15 - 1), min_size=Z, max_size=Z), min_size=Z, max_size=Z))
def test_distances_are_summed_over_ordered_pairs(table: list[list[int]]) -> None:
    sums = distance_sums(np.array(table, dtype=np.int16)[:, :, None])[:, 0]
    assert sums.tolist() == [sum(table[left][right] for left in chosen for right in chosen) for chosen in SETS]
