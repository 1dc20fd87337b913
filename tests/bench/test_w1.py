"""The workload of bench W1 is as described, and its gangs use the smallest number of racks."""

from collections import Counter

import pytest

from tests.bench.w1 import FEWEST_RACKS, spread
from tests.bench.w1_cluster import REQUESTS, TOPOLOGY, cluster, group, splitmix64, taken_slots
from webhook.engine.gang import assign_gang
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees

NODES = 5000
BLOCKS = {"c": {0: 1, 50: 1}, "f": {0: 1, 50: 1, 90: 3}, "g": {0: 1, 50: 1}}


def test_the_random_numbers_are_those_of_the_reference() -> None:
    # The first output for seed 0, as published with the generator.
    assert splitmix64(0) == 0xE220A8397B1DCDAF


@pytest.mark.parametrize(("occupancy", "free"), [(0, 40_000), (50, 19_886), (90, 3_959)])
def test_so_many_slots_are_free(occupancy: int, free: int) -> None:
    assert int((~taken_slots(NODES, occupancy)).sum()) == free


@pytest.mark.parametrize("numa", [False, True])
@pytest.mark.parametrize("occupancy", [0, 50, 90])
def test_groups_use_the_fewest_racks_and_take_nothing_twice(occupancy: int, numa: bool) -> None:
    snapshot = Snapshot(cluster(NODES, occupancy, numa=numa).node_arrays())
    tree = TopologyTrees().tree(TOPOLOGY, snapshot.node_arrays)
    taken = taken_slots(NODES, occupancy)
    for letter, request in REQUESTS.items():
        placement = assign_gang(snapshot, tree, group(letter, numa=numa))
        used = spread(placement)
        fewest = FEWEST_RACKS.get(letter, {}).get(occupancy)
        if fewest is not None:
            assert used["racks"] == fewest
        if occupancy in BLOCKS.get(letter, {}):
            assert used["blocks"] == BLOCKS[letter][occupancy]
        if not placement.assigned:
            assert placement.why
            continue
        pods = list(placement.pods())
        assert [pod.rank for pod in pods] == list(range(request.pods))
        if numa:
            slots = [(int(pod.node.removeprefix("node-")), zone) for pod in pods for zone in pod.numa_nodes]
            assert len(slots) == len(set(slots)) == len(pods)
            assert not any(taken[slot] for slot in slots)
        else:
            per_node = Counter(int(pod.node.removeprefix("node-")) for pod in pods)
            assert all(count <= 8 - taken[node].sum() for node, count in per_node.items())
