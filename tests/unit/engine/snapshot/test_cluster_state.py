"""The cluster's state and its snapshots."""

import gc

import numpy as np
import pytest

from tests.builders.records import BIG, GI, SINGLE, cpus, node, resident, state, topology
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.formats.kubernetes.node import Taint
from webhook.formats.nrt import Publisher
from webhook.model.policy import NUMAPolicy


def free(node_arrays: NodeArrays, name: str, resource: str = "cpu") -> list[int]:
    """What each NUMA node of a node has free."""
    amounts: list[int] = node_arrays.available[
        node_arrays.resources.find(resource), :, node_arrays.index[name]
    ].tolist()
    return amounts


def test_an_empty_cluster_has_an_empty_snapshot() -> None:
    node_arrays = ClusterState().node_arrays()
    assert (node_arrays.n, node_arrays.available.shape[2], list(node_arrays.order)) == (0, 0, [])


def test_a_node_is_one_column_of_every_array() -> None:
    node_arrays = state(node(name="a"), topology(node="a", free=cpus(4, 2)), node(name="b")).node_arrays()
    assert node_arrays.names == ["a", "b"]
    assert free(node_arrays, "a") == [4000, 2000]
    assert free(node_arrays, "b") == [-1, -1]
    assert node_arrays.has_topology.tolist() == [True, False]
    assert node_arrays.zone_ids.T.tolist() == [[0, 1], [-1, -1]]


def test_a_position_is_not_a_numa_id() -> None:
    node_arrays = state(node(name="a"), topology(node="a", free=cpus(4, 2), ids=[3, 7])).node_arrays()
    assert node_arrays.zone_ids[:, 0].tolist() == [3, 7]
    assert free(node_arrays, "a") == [4000, 2000]


def test_a_topology_may_come_before_its_node() -> None:
    node_arrays = state(topology(node="a", free=cpus(4)), node(name="a")).node_arrays()
    assert free(node_arrays, "a") == [4000]


def test_pods_may_come_before_their_node() -> None:
    node_arrays = state(resident(name="p", node="a", requests={"cpu": 1500}), node(name="a")).node_arrays()
    assert node_arrays.requested[node_arrays.resources.find("cpu"), 0] == 1500
    assert node_arrays.requested[node_arrays.resources.find("pods"), 0] == 1


@pytest.mark.parametrize("label", [NUMAPolicy.BEST_EFFORT, NUMAPolicy.NONE])
def test_the_koordinator_label_goes_before_the_policy_of_the_nrt(label: NUMAPolicy) -> None:
    labelled = node(name="a", policy_label=label)
    node_arrays = state(
        labelled, topology(node="a", free=cpus(4), policy=SINGLE), node(name="b"), topology(node="b", free=cpus(4))
    ).node_arrays()
    assert node_arrays.policy.tolist() == [label, SINGLE]


def test_nothing_changed_means_the_same_snapshot() -> None:
    cluster = state(node(name="a"))
    node_arrays = cluster.node_arrays()
    cluster.upsert_node(node(name="a"))
    cluster.delete_pod("default/unknown")
    cluster.delete_node("unknown")
    cluster.delete_topology("unknown")
    assert cluster.node_arrays() is node_arrays


def test_a_snapshot_that_is_held_never_changes() -> None:
    cluster = state(node(name="a"), topology(node="a", free=cpus(8)))
    held = [cluster.node_arrays()]
    for amount in range(7, 0, -1):
        cluster.upsert_topology(topology(node="a", free=cpus(amount)))
        held.append(cluster.node_arrays())
    assert [free(node_arrays, "a") for node_arrays in held] == [[1000 * amount] for amount in range(8, 0, -1)]


def test_a_snapshot_nobody_holds_lends_its_memory_to_a_later_one() -> None:
    cluster = state(node(name="a"), topology(node="a", free=cpus(8)))
    memory = set()
    for amount in range(10):
        cluster.upsert_topology(topology(node="a", free=cpus(amount)))
        memory.add(cluster.node_arrays().available.__array_interface__["data"][0])
    gc.collect()
    assert len(memory) <= 3


def test_a_snapshot_that_is_held_long_does_not_make_each_later_one_a_copy() -> None:
    cluster = state(node(name="a"), topology(node="a", free=cpus(8)))
    held = cluster.node_arrays()
    memory = set()
    for amount in range(10):
        cluster.upsert_topology(topology(node="a", free=cpus(amount)))
        memory.add(cluster.node_arrays().available.__array_interface__["data"][0])
    assert len(memory) == 2
    assert free(held, "a") == [8000]


def test_the_columns_of_the_first_snapshot_can_be_written_in_parts() -> None:
    nodes = [node(name=name) for name in "abcde"]
    topologies = [topology(node=each.name, free=cpus(number)) for number, each in enumerate(nodes)]
    cluster = state(*nodes, *topologies)
    assert not cluster.write_some(2)
    cluster.delete_node("b")  # the last node takes its column, which is written already
    assert not cluster.write_some(2)
    assert cluster.write_some(2)
    node_arrays = cluster.node_arrays()
    assert {name: free(node_arrays, name) for name in node_arrays.names} == {
        each.node: [1000 * number] for number, each in enumerate(topologies) if each.node != "b"
    }
    cluster.upsert_topology(topology(node="a", free=cpus(7)))
    assert cluster.write_some(0)  # only before the first snapshot


def test_the_arrays_of_a_snapshot_are_read_only() -> None:
    node_arrays = state(node(name="a"), topology(node="a", free=cpus(8))).node_arrays()
    arrays = [getattr(node_arrays, field) for field in NodeArrays.__slots__ if field != "__weakref__"]
    assert not any(array.flags.writeable for array in arrays if isinstance(array, np.ndarray))


def test_a_deleted_node_gives_its_column_to_the_last_one() -> None:
    cluster = state(*(item for name in "abc" for item in (node(name=name), topology(node=name, free=cpus(ord(name))))))
    before = cluster.node_arrays()
    cluster.delete_node("a")
    after = cluster.node_arrays()
    assert (before.names, after.names) == (["a", "b", "c"], ["c", "b"])
    assert dict(after.index) == {"c": 0, "b": 1}
    assert free(after, "c") == [1000 * ord("c")]
    assert [after.names[n] for n in after.order] == ["b", "c"]


def test_a_node_that_comes_back_has_its_topology_and_pods_again() -> None:
    cluster = state(
        node(name="a"), topology(node="a", free=cpus(4)), resident(name="p", node="a", requests={"cpu": 1000})
    )
    cluster.delete_node("a")
    assert cluster.node_arrays().n == 0
    cluster.upsert_node(node(name="a"))
    node_arrays = cluster.node_arrays()
    assert free(node_arrays, "a") == [4000]
    assert node_arrays.requested[0, 0] == 1000


def test_a_new_resource_gets_a_row_and_old_rows_stay() -> None:
    cluster = state(
        node(name="a"), topology(node="a", free=cpus(4)), resident(name="p", node="a", requests={"example.com/gpu": 1})
    )
    before = cluster.node_arrays()
    assert before.resources.find("example.com/gpu") == -1
    cluster.upsert_node(node(name="b", allocatable={**BIG, "example.com/gpu": 8}))
    cluster.upsert_node(node(name="a", allocatable={**BIG, "example.com/gpu": 4}))
    after = cluster.node_arrays()
    row = after.resources.find("example.com/gpu")
    assert list(after.resources)[: len(before.resources)] == list(before.resources)
    assert after.allocatable[row].tolist() == [4, 8]
    assert after.requested[row].tolist() == [1, 0]
    assert after.node_free[row].tolist() == [3, 8]


def test_a_wider_machine_widens_the_arrays() -> None:
    cluster = state(node(name="a"), topology(node="a", free=cpus(1, 2)))
    before = cluster.node_arrays()
    tell_wide = topology(node="b", free=cpus(1, 2, 3, 4))
    cluster.upsert_node(node(name="b"))
    cluster.upsert_topology(tell_wide)
    after = cluster.node_arrays()
    assert (before.z, after.z) == (2, 4)
    assert free(after, "a") == [1000, 2000, -1, -1]
    assert free(after, "b") == [1000, 2000, 3000, 4000]


def test_many_nodes_added_one_by_one_are_all_there() -> None:
    cluster = ClusterState()
    for number in range(100):
        cluster.upsert_node(node(name=f"n{number}"))
        cluster.upsert_topology(topology(node=f"n{number}", free=cpus(number)))
        cluster.node_arrays()
    node_arrays = cluster.node_arrays()
    assert [free(node_arrays, f"n{number}")[0] for number in range(100)] == [1000 * number for number in range(100)]
    assert [node_arrays.names[n] for n in node_arrays.order] == sorted(node_arrays.names)


def test_where_the_publisher_gives_totals_placed_pods_are_taken_off() -> None:
    assigned = resident(name="p", node="a", requests={"cpu": 3000}, numa={1: {"cpu": 3000}})
    totals = topology(node="a", free=cpus(4, 4), publisher=Publisher.TOTAL)
    cluster = state(
        node(name="a"),
        totals,
        assigned,
        node(name="b"),
        topology(node="b", free=cpus(4, 4)),
        resident(name="q", node="b", requests={}, numa={0: {"cpu": 1}}),
    )
    assert free(cluster.node_arrays(), "a") == [4000, 1000]
    assert free(cluster.node_arrays(), "b") == [4000, 4000]
    cluster.delete_pod("default/p")
    assert free(cluster.node_arrays(), "a") == [4000, 4000]


def test_available_never_falls_below_zero() -> None:
    totals = topology(node="a", free=cpus(4), publisher=Publisher.TOTAL)
    too_much = [resident(name=name, node="a", requests={}, numa={0: {"cpu": 3000}}) for name in "pq"]
    assert free(state(node(name="a"), totals, *too_much).node_arrays(), "a") == [0]


def test_a_pod_that_ended_holds_nothing() -> None:
    cluster = state(node(name="a"), resident(name="p", node="a", requests={"cpu": 1000}))
    cluster.upsert_pod(resident(name="p", node="a", requests={"cpu": 1000}, terminal=True))
    node_arrays = cluster.node_arrays()
    assert node_arrays.requested[:, 0].tolist() == [0] * len(node_arrays.resources)
    assert cluster.pods == {}


def test_residents_count_by_policy_and_not_by_cpuset() -> None:
    # a: NUMA 0 holds a SingleNUMANode pod, a pod without policy spans both, a narrow one without policy counts nowhere
    cluster = state(
        node(name="a"),
        topology(node="a", free=cpus(8, 8)),
        resident(name="single", node="a", requests={}, numa={0: {"memory": GI}}, policy=SINGLE),
        resident(
            name="wide", node="a", requests={}, numa={0: {"cpu": 1000}, 1: {"cpu": 1000}}, policy=NUMAPolicy.RESTRICTED
        ),
        resident(name="narrow", node="a", requests={}, numa={1: {"cpu": 1000}}),
    )
    node_arrays = cluster.node_arrays()
    assert node_arrays.single_residents[:, 0].tolist() == [1, 0]
    assert node_arrays.multi_residents[:, 0].tolist() == [1, 1]


def test_the_change_log_names_the_columns_that_changed() -> None:
    cluster = state(node(name="a"), node(name="b"), node(name="c"))
    before = cluster.node_arrays().generation
    cluster.upsert_topology(topology(node="b", free=cpus(8)))
    node_arrays = cluster.node_arrays()
    assert node_arrays.changes.since(before) == {1}
    assert node_arrays.changes.since(node_arrays.generation) == set()
    assert node_arrays.changes.since(node_arrays.generation + 1) is None


def test_absurd_requests_do_not_overflow() -> None:
    absurd = [resident(name=f"p{number}", node="a", requests={"memory": 2**62 - 1}) for number in range(9)]
    node_arrays = state(node(name="a"), *absurd).node_arrays()
    assert node_arrays.node_free[node_arrays.resources.find("memory"), 0] < 0


# A cluster autoscaler writes the time into its taints: each node that it removes had one that no other ever has.
def test_sets_of_taints_that_no_node_has_any_more_are_forgotten() -> None:
    cluster = state(*(node(name=f"n{number}") for number in range(10)))
    held = None
    for second in range(1_000):
        taint = Taint("ToBeDeletedByClusterAutoscaler", str(second), "NoSchedule")
        cluster.upsert_node(node(name=f"n{second % 10}", taints=[taint]))
        node_arrays = cluster.node_arrays()
        if second == 500:
            held = node_arrays
    assert len(node_arrays.taint_sets) < 200
    sets = {name: node_arrays.taint_sets[node_arrays.taint_set[n]] for n, name in enumerate(node_arrays.names)}
    assert sets == {name: cluster.nodes[name].taints for name in node_arrays.names}
    assert held is not None
    values = {int(held.taint_sets[number][0].value) for number in held.taint_set.tolist()}
    assert values == set(range(491, 501))
