"""The cluster's state and its snapshots."""

import gc

import numpy as np
import pytest

from tests.unit.engine.machines import BIG, GI, SINGLE, cpus, node, resident, state, topology
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.node_arrays import Snapshot
from webhook.model.node import Taint
from webhook.model.nrt import Publisher
from webhook.model.policy import NUMAPolicy


def free(snapshot: Snapshot, name: str, resource: str = "cpu") -> list[int]:
    """What each NUMA node of a node has free."""
    amounts: list[int] = snapshot.available[snapshot.resources.find(resource), :, snapshot.index[name]].tolist()
    return amounts


def test_an_empty_cluster_has_an_empty_snapshot() -> None:
    snapshot = ClusterState().snapshot()
    assert (snapshot.n, snapshot.available.shape[2], list(snapshot.order)) == (0, 0, [])


def test_a_node_is_one_column_of_every_array() -> None:
    snapshot = state(node("a"), topology("a", cpus(4, 2)), node("b")).snapshot()
    assert snapshot.names == ["a", "b"]
    assert free(snapshot, "a") == [4000, 2000]
    assert free(snapshot, "b") == [-1, -1]
    assert snapshot.has_topology.tolist() == [True, False]
    assert snapshot.zone_ids.T.tolist() == [[0, 1], [-1, -1]]


def test_a_position_is_not_a_numa_id() -> None:
    snapshot = state(node("a"), topology("a", cpus(4, 2), ids=[3, 7])).snapshot()
    assert snapshot.zone_ids[:, 0].tolist() == [3, 7]
    assert free(snapshot, "a") == [4000, 2000]


def test_a_topology_may_come_before_its_node() -> None:
    snapshot = state(topology("a", cpus(4)), node("a")).snapshot()
    assert free(snapshot, "a") == [4000]


def test_pods_may_come_before_their_node() -> None:
    snapshot = state(resident("p", "a", {"cpu": 1500}), node("a")).snapshot()
    assert snapshot.requested[snapshot.resources.find("cpu"), 0] == 1500
    assert snapshot.requested[snapshot.resources.find("pods"), 0] == 1


@pytest.mark.parametrize("label", [NUMAPolicy.BEST_EFFORT, NUMAPolicy.NONE])
def test_the_koordinator_label_goes_before_the_policy_of_the_nrt(label: NUMAPolicy) -> None:
    labelled = node("a", policy_label=label)
    snapshot = state(labelled, topology("a", cpus(4), policy=SINGLE), node("b"), topology("b", cpus(4))).snapshot()
    assert snapshot.policy.tolist() == [label, SINGLE]


def test_nothing_changed_means_the_same_snapshot() -> None:
    cluster = state(node("a"))
    snapshot = cluster.snapshot()
    cluster.upsert_node(node("a"))
    cluster.delete_pod("default/unknown")
    cluster.delete_node("unknown")
    cluster.delete_topology("unknown")
    assert cluster.snapshot() is snapshot


def test_a_snapshot_that_is_held_never_changes() -> None:
    cluster = state(node("a"), topology("a", cpus(8)))
    held = [cluster.snapshot()]
    for amount in range(7, 0, -1):
        cluster.upsert_topology(topology("a", cpus(amount)))
        held.append(cluster.snapshot())
    assert [free(snapshot, "a") for snapshot in held] == [[1000 * amount] for amount in range(8, 0, -1)]


def test_a_snapshot_nobody_holds_lends_its_memory_to_a_later_one() -> None:
    cluster = state(node("a"), topology("a", cpus(8)))
    memory = set()
    for amount in range(10):
        cluster.upsert_topology(topology("a", cpus(amount)))
        memory.add(cluster.snapshot().available.__array_interface__["data"][0])
    gc.collect()
    assert len(memory) <= 3


def test_the_arrays_of_a_snapshot_are_read_only() -> None:
    snapshot = state(node("a"), topology("a", cpus(8))).snapshot()
    arrays = [getattr(snapshot, field) for field in Snapshot.__slots__ if field != "__weakref__"]
    assert not any(array.flags.writeable for array in arrays if isinstance(array, np.ndarray))


def test_a_deleted_node_gives_its_column_to_the_last_one() -> None:
    cluster = state(*(item for name in "abc" for item in (node(name), topology(name, cpus(ord(name))))))
    before = cluster.snapshot()
    cluster.delete_node("a")
    after = cluster.snapshot()
    assert (before.names, after.names) == (["a", "b", "c"], ["c", "b"])
    assert dict(after.index) == {"c": 0, "b": 1}
    assert free(after, "c") == [1000 * ord("c")]
    assert [after.names[n] for n in after.order] == ["b", "c"]


def test_a_node_that_comes_back_has_its_topology_and_pods_again() -> None:
    cluster = state(node("a"), topology("a", cpus(4)), resident("p", "a", {"cpu": 1000}))
    cluster.delete_node("a")
    assert cluster.snapshot().n == 0
    cluster.upsert_node(node("a"))
    snapshot = cluster.snapshot()
    assert free(snapshot, "a") == [4000]
    assert snapshot.requested[0, 0] == 1000


def test_a_new_resource_gets_a_row_and_old_rows_stay() -> None:
    cluster = state(node("a"), topology("a", cpus(4)), resident("p", "a", {"example.com/gpu": 1}))
    before = cluster.snapshot()
    assert before.resources.find("example.com/gpu") == -1
    cluster.upsert_node(node("b", {**BIG, "example.com/gpu": 8}))
    cluster.upsert_node(node("a", {**BIG, "example.com/gpu": 4}))
    after = cluster.snapshot()
    row = after.resources.find("example.com/gpu")
    assert list(after.resources)[: len(before.resources)] == list(before.resources)
    assert after.allocatable[row].tolist() == [4, 8]
    assert after.requested[row].tolist() == [1, 0]
    assert after.node_free[row].tolist() == [3, 8]


def test_a_wider_machine_widens_the_arrays() -> None:
    cluster = state(node("a"), topology("a", cpus(1, 2)))
    before = cluster.snapshot()
    tell_wide = topology("b", cpus(1, 2, 3, 4))
    cluster.upsert_node(node("b"))
    cluster.upsert_topology(tell_wide)
    after = cluster.snapshot()
    assert (before.z, after.z) == (2, 4)
    assert free(after, "a") == [1000, 2000, -1, -1]
    assert free(after, "b") == [1000, 2000, 3000, 4000]


def test_many_nodes_added_one_by_one_are_all_there() -> None:
    cluster = ClusterState()
    for number in range(100):
        cluster.upsert_node(node(f"n{number}"))
        cluster.upsert_topology(topology(f"n{number}", cpus(number)))
        cluster.snapshot()
    snapshot = cluster.snapshot()
    assert [free(snapshot, f"n{number}")[0] for number in range(100)] == [1000 * number for number in range(100)]
    assert [snapshot.names[n] for n in snapshot.order] == sorted(snapshot.names)


def test_where_the_publisher_gives_totals_placed_pods_are_taken_off() -> None:
    placed = resident("p", "a", {"cpu": 3000}, {1: {"cpu": 3000}})
    totals = topology("a", cpus(4, 4), publisher=Publisher.TOTAL)
    cluster = state(
        node("a"), totals, placed, node("b"), topology("b", cpus(4, 4)), resident("q", "b", {}, {0: {"cpu": 1}})
    )
    assert free(cluster.snapshot(), "a") == [4000, 1000]
    assert free(cluster.snapshot(), "b") == [4000, 4000]
    cluster.delete_pod("default/p")
    assert free(cluster.snapshot(), "a") == [4000, 4000]


def test_available_never_falls_below_zero() -> None:
    totals = topology("a", cpus(4), publisher=Publisher.TOTAL)
    too_much = [resident(name, "a", {}, {0: {"cpu": 3000}}) for name in "pq"]
    assert free(state(node("a"), totals, *too_much).snapshot(), "a") == [0]


def test_a_pod_that_ended_holds_nothing() -> None:
    cluster = state(node("a"), resident("p", "a", {"cpu": 1000}))
    cluster.upsert_pod(resident("p", "a", {"cpu": 1000}, terminal=True))
    snapshot = cluster.snapshot()
    assert snapshot.requested[:, 0].tolist() == [0] * len(snapshot.resources)
    assert cluster.pods == {}


def test_residents_count_by_policy_and_not_by_cpuset() -> None:
    # a: NUMA 0 holds a SingleNUMANode pod, a pod without policy spans both, a narrow one without policy counts nowhere
    cluster = state(
        node("a"),
        topology("a", cpus(8, 8)),
        resident("single", "a", {}, {0: {"memory": GI}}, policy=SINGLE),
        resident("wide", "a", {}, {0: {"cpu": 1000}, 1: {"cpu": 1000}}, policy=NUMAPolicy.RESTRICTED),
        resident("narrow", "a", {}, {1: {"cpu": 1000}}),
    )
    snapshot = cluster.snapshot()
    assert snapshot.single_residents[:, 0].tolist() == [1, 0]
    assert snapshot.multi_residents[:, 0].tolist() == [1, 1]


def test_the_change_log_names_the_columns_that_changed() -> None:
    cluster = state(node("a"), node("b"), node("c"))
    before = cluster.snapshot().generation
    cluster.upsert_topology(topology("b", cpus(8)))
    snapshot = cluster.snapshot()
    assert snapshot.changes.since(before) == {1}
    assert snapshot.changes.since(snapshot.generation) == set()
    assert snapshot.changes.since(snapshot.generation + 1) is None


def test_absurd_requests_do_not_overflow() -> None:
    absurd = [resident(f"p{number}", "a", {"memory": 2**62 - 1}) for number in range(9)]
    snapshot = state(node("a"), *absurd).snapshot()
    assert snapshot.node_free[snapshot.resources.find("memory"), 0] < 0


# A cluster autoscaler writes the time into its taints: each node that it removes had one that no other ever has.
def test_sets_of_taints_that_no_node_has_any_more_are_forgotten() -> None:
    cluster = state(*(node(f"n{number}") for number in range(10)))
    held = None
    for second in range(1_000):
        taint = Taint("ToBeDeletedByClusterAutoscaler", str(second), "NoSchedule")
        cluster.upsert_node(node(f"n{second % 10}", taints=[taint]))
        snapshot = cluster.snapshot()
        if second == 500:
            held = snapshot
    assert len(snapshot.taint_sets) < 200
    sets = {name: snapshot.taint_sets[snapshot.taint_set[n]] for n, name in enumerate(snapshot.names)}
    assert sets == {name: cluster.nodes[name].taints for name in snapshot.names}
    assert held is not None
    values = {int(held.taint_sets[number][0].value) for number in held.taint_set.tolist()}
    assert values == set(range(491, 501))
