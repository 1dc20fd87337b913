import numpy as np
import pytest

from tests.conformance.hints import Hint, merge_hints
from webhook.engine.kubelet.bitmask import as_mask, members, widths
from webhook.model.policy import NUMAPolicy

SINGLE, RESTRICTED, BEST_EFFORT = NUMAPolicy.SINGLE_NUMA_NODE, NUMAPolicy.RESTRICTED, NUMAPolicy.BEST_EFFORT


def preferred(*nodes: int) -> Hint:
    return Hint(nodes, preferred=True)


def other(*nodes: int) -> Hint:
    return Hint(nodes, preferred=False)


def test_preferred_hints_merge_only_where_they_are_equal() -> None:
    cpu = [preferred(0), preferred(1), other(0, 1)]
    gpu = [preferred(1), other(0, 1)]
    for policy in (SINGLE, RESTRICTED, BEST_EFFORT):
        assert merge_hints(policy, (0, 1), [{"cpu": cpu}, {"gpu": gpu}]) == (preferred(1), True)


def test_equal_width_goes_to_the_lower_numa_node() -> None:
    assert merge_hints(RESTRICTED, (0, 1, 2), [{"cpu": [preferred(2), preferred(1)]}]) == (preferred(1), True)


# 0 ─12─ 3, the others 30 apart
def test_equal_width_goes_to_the_closest_numa_nodes_if_told_so() -> None:
    pairs = [preferred(0, 1), preferred(0, 3), preferred(2, 3)]
    table = [[10, 30, 30, 12], [30, 10, 30, 30], [30, 30, 10, 30], [12, 30, 30, 10]]
    assert merge_hints(RESTRICTED, range(4), [{"cpu": pairs}], table)[0] == preferred(0, 3)
    assert merge_hints(RESTRICTED, range(4), [{"cpu": pairs}])[0] == preferred(0, 1)


def test_a_hint_that_is_not_preferred_is_as_wide_as_the_neediest_resource() -> None:
    cpu = [other(0, 1), other(0, 1, 2)]
    gpu = [preferred(2), other(0, 1, 2)]
    # {2} would be narrower, but the CPUs need two NUMA nodes.
    assert merge_hints(BEST_EFFORT, (0, 1, 2), [{"cpu": cpu}, {"gpu": gpu}]) == (other(0, 1), True)
    assert merge_hints(RESTRICTED, (0, 1, 2), [{"cpu": cpu}, {"gpu": gpu}]) == (other(0, 1), False)


@pytest.mark.parametrize("policy", [SINGLE, RESTRICTED])
def test_a_resource_that_cannot_be_satisfied_is_refused_by_strict_policies(policy: NUMAPolicy) -> None:
    assert merge_hints(policy, (0, 1), [{"cpu": [preferred(0)]}, {"gpu": []}])[1] is False
    assert merge_hints(BEST_EFFORT, (0, 1), [{"cpu": [preferred(0)]}, {"gpu": []}])[1] is True


def test_providers_without_a_preference_leave_the_choice_to_the_others() -> None:
    assert merge_hints(SINGLE, (0, 1), [{}, {"gpu": None}, {"cpu": [preferred(1)]}]) == (preferred(1), True)
    assert merge_hints(SINGLE, (0, 1), [{}, {"gpu": None}]) == (Hint(None, preferred=True), True)
    assert merge_hints(RESTRICTED, (0, 1), [{}]) == (preferred(0, 1), True)


def test_the_only_numa_node_of_a_machine_is_no_affinity_for_single_numa_node() -> None:
    assert merge_hints(SINGLE, (0,), [{"cpu": [preferred(0)]}]) == (Hint(None, preferred=True), True)


def test_policy_none_admits_without_a_hint() -> None:
    assert merge_hints(NUMAPolicy.NONE, (0, 1), [{"cpu": []}]) == (Hint(None, preferred=False), True)


def test_numa_ids_may_have_gaps() -> None:
    assert merge_hints(SINGLE, (1, 5, 9), [{"cpu": [preferred(5), preferred(9)]}]) == (preferred(5), True)


def test_a_mask_counts_its_numa_nodes_by_position() -> None:
    assert widths(3).tolist() == [0, 1, 1, 2, 1, 2, 2, 3]
    assert members(2).tolist() == [[False, False], [True, False], [False, True], [True, True]]
    assert as_mask(np.array([[True, False], [True, True]])).tolist() == [3, 2]
