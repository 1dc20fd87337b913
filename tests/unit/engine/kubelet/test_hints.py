import numpy as np

from webhook.engine.kubelet.hints import memory_masks, narrowest_width, piece_hints
from webhook.engine.kubelet.memory_manager import (
    UNASSIGNED,
    UNKNOWN_GROUP,
    masks_by_groups,
    possible_groups,
    published_groups,
)
from webhook.engine.kubelet.pools import Pool, take_cpus
from webhook.formats.kubernetes.pod import ContainerKind
from webhook.model.policy import NUMAPolicy


def pool(capacity: list[int], free: list[int], *, listed: bool = True, without_topology: int = 0) -> Pool:
    """One resource on one machine."""
    table = np.array(capacity)[:, None]
    return Pool(
        capacity=table,
        free=np.array(free)[:, None],
        listed=np.array([listed]),
        without_topology=np.array([without_topology]),
        shared=np.array([False]),
        reusable=np.zeros_like(table),
        reusable_by_mask={},
    )


def masks(table: np.ndarray) -> list[int]:
    return np.flatnonzero(table[:, 0]).tolist()


def test_a_mask_is_preferred_if_it_is_as_narrow_as_the_capacity_allows() -> None:
    # [8 of 8, 2 of 8]: six fit one NUMA node, whatever is in use
    hints = piece_hints(pool([8, 8], [8, 2]), 6)
    assert (masks(hints.preferred), masks(hints.other)) == ([0b01], [0b11])
    # nothing narrower than both could ever hold ten
    hints = piece_hints(pool([8, 8], [8, 2]), 10)
    assert (masks(hints.preferred), masks(hints.other)) == ([0b11], [])


def test_what_cannot_be_satisfied_is_open_to_no_numa_node() -> None:
    hints = piece_hints(pool([4, 4], [1, 1]), 3)
    assert hints.any_other[0]
    assert not hints.any_preferred[0]


def test_devices_that_no_numa_node_lists_are_no_concern() -> None:
    assert piece_hints(pool([0, 0], [0, 0], listed=False), 3).any_preferred[0]


def test_asking_for_no_devices_still_binds_to_where_there_are_some() -> None:
    assert masks(piece_hints(pool([0, 2], [0, 0]), 0).preferred) == [0b10]


def test_what_is_to_be_reused_must_lie_inside_the_mask() -> None:
    cpus = pool([4, 4], [4, 4])
    cpus.take_pieces(np.array([[0], [3]]), ContainerKind.INIT)
    assert masks(piece_hints(cpus, 4).preferred) == [0b10]
    cpus.take_pieces(np.array([[0], [3]]), ContainerKind.APP)
    assert masks(piece_hints(cpus, 4).preferred) == [0b01]


def test_memory_and_huge_pages_are_sought_together() -> None:
    kinds = {0: pool([8, 8], [8, 8]), 1: pool([2, 4], [2, 4])}
    everywhere = np.ones((4, 1), dtype=np.bool_)
    found = memory_masks(kinds, {0: 6, 1: 3}, everywhere)
    assert (masks(found.found), found.narrowest.tolist()) == ([0b10, 0b11], [1])


def test_memory_held_under_a_mask_is_reused_under_that_mask_only() -> None:
    kind = pool([8, 8], [2, 2])
    kind.reusable_by_mask[0b01] = np.array([4])
    assert masks(memory_masks({0: kind}, {0: 6}, np.ones((4, 1), dtype=np.bool_)).found) == [0b01]


def test_single_and_multi_node_allocations_of_memory_keep_apart() -> None:
    never = np.zeros((8, 1), dtype=np.bool_)
    groups = np.array([[0b001], [UNASSIGNED], [UNASSIGNED]])
    assert masks(masks_by_groups(groups, never)) == [0, 0b001, 0b010, 0b100, 0b110]
    groups = np.array([[0b011], [0b011], [UNASSIGNED]])
    assert masks(masks_by_groups(groups, never)) == [0, 0b011, 0b100]


def test_where_only_preferred_hints_are_admitted_a_group_must_have_needed_its_width() -> None:
    # 3 of 8 in use: no pod that needed two NUMA nodes can be among it
    little = [pool([8, 8], [5, 8])]
    possible = possible_groups(NUMAPolicy.RESTRICTED, little, (4, 1))
    assert published_groups(little, possible)[:, 0].tolist() == [0b01, UNASSIGNED]
    much = [pool([8, 8], [0, 7])]
    possible = possible_groups(NUMAPolicy.RESTRICTED, much, (4, 1))
    assert published_groups(much, possible)[:, 0].tolist() == [UNKNOWN_GROUP, UNKNOWN_GROUP]


def test_the_narrowest_width_follows_the_roomiest_numa_nodes() -> None:
    capacity = np.array([[2], [8], [4]])
    assert [int(narrowest_width([(capacity, amount)])[0]) for amount in (8, 9, 13, 15)] == [1, 2, 3, 4]


def test_cpus_are_taken_whole_numa_nodes_first_then_from_the_fullest() -> None:
    def taken(free: list[int], needed: int) -> list[int]:
        available = np.array(free)[:, None]
        capacity = np.full_like(available, 8)
        everywhere = np.ones_like(available, dtype=np.bool_)
        return [int(amount) for amount in take_cpus(available, capacity, everywhere, np.array([needed]))[:, 0]]

    assert taken([8, 3, 8], 10) == [8, 2, 0]
    assert taken([5, 3, 0], 4) == [1, 3, 0]
