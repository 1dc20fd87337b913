"""What Koordinator's Reservations hold is not free for others."""

from typing import Any

import pytest

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound
from tests.builders.reservations import reservation
from webhook.state.cluster_cache import ClusterCache


def cluster() -> ClusterCache:
    """A node of two NUMA nodes with 8 free CPUs each."""
    cache = ClusterCache()
    put(cache, node(name="n0", cpus=16, memory="32Gi"), nrt(node="n0", free=(8, 8), cpus=8, memory=None))
    return cache


def sees(cache: ClusterCache, raw: dict[str, Any]) -> None:
    cache.koordinator_reservations.upsert(raw["metadata"]["name"], raw)


def free(cache: ClusterCache) -> tuple[int, list[int]]:
    """Free CPUs of the node, and of each of its NUMA nodes."""
    snapshot = cache.snapshot().nodes
    row = snapshot.node_arrays.resources.find("cpu")
    zones = snapshot.free(row)[:, 0].tolist()
    return int(snapshot.node_free(row)[0]) // 1000, [amount // 1000 for amount in zones]


@pytest.mark.parametrize(
    "changed",
    [
        {"phase": "Pending"},
        {"phase": "Succeeded"},
        {"phase": "Failed"},
        {"node": ""},
        {"allocated": {"cpu": "6"}},
        {"held": {}},
    ],
)
def test_one_that_holds_nothing_any_more_takes_nothing(changed: dict[str, Any]) -> None:
    cache = cluster()
    raw: dict[str, Any] = {"held": {"cpu": "6"}}
    sees(cache, reservation(**raw))
    sees(cache, reservation(**{**raw, **changed}))
    assert free(cache) == (16, [8, 8])


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ({"held": {"cpu": "6", "memory": "8Gi"}}, (10, [2, 2])),
        ({"numa": {1: {"cpu": "6"}}}, (10, [8, 2])),
        ({"allocated": {"cpu": "4"}, "numa": {0: {"cpu": "3"}, 1: {"cpu": "3"}}}, (14, [6, 6])),
    ],
    ids=["kept on each NUMA node without a record", "kept where its record says", "less what its owners have taken"],
)
def test_what_a_reservation_holds_is_kept_and_what_its_owners_have_taken_counts_with_their_pods(
    how: dict[str, Any], left: tuple[int, list[int]]
) -> None:
    cache = cluster()
    sees(cache, reservation(**{"held": {"cpu": "6"}, **how}))
    assert free(cache) == left
    put(cache, bound(name="owner", node="n0", cpu=4, numa=None))
    assert free(cache)[0] == left[0] - 4


def test_it_moves_with_its_node_and_ends_with_its_object() -> None:
    cache = cluster()
    put(cache, node(name="n1", cpus=4, memory="8Gi"))
    sees(cache, reservation(held={"cpu": "6"}, node="n1"))
    assert free(cache) == (16, [8, 8])
    changes: list[int] = []
    cache.changed.subscribe(lambda: changes.append(1))
    for _ in range(3):
        sees(cache, reservation(held={"cpu": "6"}))
    assert len(changes) == 1, "pods are told of a change once"
    assert free(cache) == (10, [2, 2])
    cache.koordinator_reservations.delete("r")
    assert free(cache) == (16, [8, 8])


@pytest.mark.parametrize("status", [None, 3, {"phase": "Available", "nodeName": 3}, {"phase": ["Available"]}])
def test_an_odd_object_holds_nothing_and_harms_nobody(status: object) -> None:
    cache = cluster()
    sees(cache, {**reservation(held={"cpu": "6"}), "status": status})
    assert free(cache) == (16, [8, 8])


def test_it_is_kept_by_numa_node_as_soon_as_these_are_published() -> None:
    cache = ClusterCache()
    put(cache, node(name="n0", cpus=16, memory="32Gi"))
    sees(cache, reservation(held={"cpu": "6"}, phase="Waiting"))
    assert free(cache)[0] == 10
    put(cache, nrt(node="n0", free=(8, 8), cpus=8, memory=None))
    assert free(cache) == (10, [2, 2])


@pytest.mark.parametrize("text", ["{", "[]", '{"numaNodeResources": 3}', '{"numaNodeResources": [{"node": "x"}]}'])
def test_an_unreadable_record_leaves_the_numa_nodes_unknown(text: str) -> None:
    cache = cluster()
    raw = reservation(held={"cpu": "6"})
    raw["metadata"]["annotations"]["scheduling.koordinator.sh/resource-status"] = text
    sees(cache, raw)
    assert free(cache) == (10, [2, 2])
    assert cache.koordinator_reservations.faults
