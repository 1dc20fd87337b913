"""Reservations, and snapshots from which they are subtracted."""

from tests.builders.records import cpus, node, state, topology
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy

CPU = 0
PODS = 2


def cluster() -> ClusterState:
    # a [8 8]   b [8 8]      [free cpus per NUMA node]
    nodes = [node(name=name, allocatable={"cpu": 16000, "memory": 2**40, "pods": 10}) for name in "ab"]
    return state(*nodes, *(topology(node=name, free=cpus(8, 8)) for name in "ab"))


def free(snapshot: Snapshot) -> list[list[int]]:
    """Free CPUs per node and NUMA node."""
    amounts: list[list[int]] = (snapshot.free(CPU).T // 1000).tolist()
    return amounts


def test_an_empty_ledger_costs_nothing_the_view_reads_the_snapshot_itself() -> None:
    node_arrays = cluster().node_arrays()
    assert Snapshot(node_arrays, Ledger()).free(CPU).base is node_arrays.available.base


def test_a_reservation_is_taken_off_its_numa_node_and_its_node() -> None:
    ledger = Ledger()
    ledger.put(Reservation.of("default/p", "b", {1: {"cpu": 3000}}, {"cpu": 3000}))
    snapshot = Snapshot(cluster().node_arrays(), ledger)
    assert free(snapshot) == [[8, 8], [8, 5]]
    assert snapshot.node_free(CPU).tolist() == [16000, 13000]
    assert snapshot.node_free(PODS).tolist() == [10, 9]


def test_what_ended_pods_held_is_free_again_up_to_what_a_numa_node_can_allocate() -> None:
    # a [5 8]  of 8 each      [free cpus per NUMA node]
    node_arrays = state(node(name="a"), topology(node="a", free=cpus(5, 8), capacity={"cpu": 8000})).node_arrays()
    ledger = Ledger()
    ledger.give_back("a", {0: {"cpu": 2000}, 1: {"cpu": 3000}, 7: {"cpu": 1000}})
    assert free(Snapshot(node_arrays, ledger)) == [[7, 8]]
    ledger.put(Reservation.of("default/p", "a", {0: {"cpu": 6000}, 1: {"cpu": 6000}}, None))
    assert free(Snapshot(node_arrays, ledger)) == [[1, 2]]
    ledger.give_back("a", {})
    ledger.release("default/p")
    assert free(Snapshot(node_arrays, ledger)) == [[5, 8]]


def test_the_snapshot_itself_does_not_change() -> None:
    ledger = Ledger()
    node_arrays = cluster().node_arrays()
    ledger.put(Reservation.of("default/p", "b", {1: {"cpu": 3000}}, {"cpu": 3000}))
    Snapshot(node_arrays, ledger)
    assert (Snapshot(node_arrays).free(CPU) == 8000).all()


def test_releasing_is_the_inverse_of_reserving() -> None:
    ledger = Ledger()
    node_arrays = cluster().node_arrays()
    ledger.put(Reservation.of("default/p", "b", {1: {"cpu": 3000}}, {"cpu": 3000}, policy=NUMAPolicy.SINGLE_NUMA_NODE))
    ledger.put(Reservation.of("default/q", "b", {1: {"cpu": 1000}}, {"cpu": 1000}))
    assert ledger.release("default/p")
    assert free(Snapshot(node_arrays, ledger)) == [[8, 8], [8, 7]]
    assert ledger.release("default/q")
    assert free(Snapshot(node_arrays, ledger)) == [[8, 8], [8, 8]]
    assert not ledger.release("default/q")


def test_a_second_reservation_of_a_pod_replaces_the_first() -> None:
    ledger = Ledger()
    ledger.put(Reservation.of("default/p", "a", {0: {"cpu": 3000}}, {}))
    ledger.put(Reservation.of("default/p", "b", {1: {"cpu": 2000}}, {}))
    assert free(Snapshot(cluster().node_arrays(), ledger)) == [[8, 8], [8, 6]]
    assert len(ledger) == 1


def test_a_reservation_follows_its_node_to_another_column() -> None:
    ledger = Ledger()
    state_ = cluster()
    ledger.put(Reservation.of("default/p", "b", {1: {"cpu": 3000}}, {}))
    Snapshot(state_.node_arrays(), ledger)
    state_.delete_node("a")
    assert state_.node_arrays().names == ["b"]
    assert free(Snapshot(state_.node_arrays(), ledger)) == [[8, 5]]


def test_a_node_that_goes_and_comes_back_keeps_its_assumed_pods() -> None:
    ledger = Ledger()
    state_ = cluster()
    ledger.put(Reservation.of("default/p", "b", {1: {"cpu": 3000}}, {}))
    state_.delete_node("b")
    assert free(Snapshot(state_.node_arrays(), ledger)) == [[8, 8]]
    state_.upsert_node(node(name="b"))
    assert free(Snapshot(state_.node_arrays(), ledger)) == [[8, 8], [8, 5]]


def test_what_was_reserved_for_an_unknown_node_or_numa_node_harms_nobody() -> None:
    ledger = Ledger()
    ledger.put(Reservation.of("default/p", "nowhere", {0: {"cpu": 3000}}, {"cpu": 3000}))
    ledger.put(
        Reservation.of("default/q", "a", {7: {"cpu": 3000}, 0: {"example.com/unknown": 1}}, {"example.com/unknown": 1})
    )
    assert free(Snapshot(cluster().node_arrays(), ledger)) == [[8, 8], [8, 8]]


def test_more_than_there_is_leaves_nothing_and_never_less() -> None:
    ledger = Ledger()
    for pod in "pqr":
        ledger.put(Reservation.of(f"default/{pod}", "a", {0: {"cpu": 5000, "memory": 1}}, {}))
    snapshot = Snapshot(cluster().node_arrays(), ledger)
    assert free(snapshot) == [[0, 8], [8, 8]]
    assert (snapshot.free(1) == -1).all()  # memory: not listed by any NUMA node, and it stays so


def test_a_view_that_is_held_never_changes() -> None:
    ledger = Ledger()
    node_arrays = cluster().node_arrays()
    held = []
    for number in range(5):
        ledger.put(Reservation.of(f"default/p{number}", "a", {0: {"cpu": 1000}}, {}))
        held.append(Snapshot(node_arrays, ledger))
    assert [free(snapshot)[0][0] for snapshot in held] == [7, 6, 5, 4, 3]


def test_a_view_that_is_held_long_does_not_make_each_later_one_a_copy() -> None:
    ledger = Ledger()
    node_arrays = cluster().node_arrays()
    memory = set()
    ledger.put(Reservation.of("default/held", "a", {0: {"cpu": 1000}}, {}))
    held = Snapshot(node_arrays, ledger)
    for number in range(10):
        ledger.put(Reservation.of("default/p", "a", {0: {"cpu": 1000 * number}}, {}))
        memory.add(Snapshot(node_arrays, ledger).free(CPU).__array_interface__["data"][0])
    assert len(memory) == 1
    assert free(held)[0] == [7, 8]


def test_equal_moments_share_one_overlay() -> None:
    ledger = Ledger()
    node_arrays = cluster().node_arrays()
    ledger.put(Reservation.of("default/p", "a", {0: {"cpu": 1000}}, {}))
    one, other = Snapshot(node_arrays, ledger), Snapshot(node_arrays, ledger)
    assert one.free(CPU).base is other.free(CPU).base


def test_an_overlay_follows_the_snapshot_through_growth() -> None:
    ledger = Ledger()
    state_ = cluster()
    ledger.put(Reservation.of("default/p", "a", {0: {"cpu": 1000}}, {}))
    for number in range(40):
        state_.upsert_node(node(name=f"n{number}"))
        state_.upsert_topology(topology(node=f"n{number}", free=cpus(*range(number % 5 + 1))))
        snapshot = Snapshot(state_.node_arrays(), ledger)
        assert snapshot.free(CPU)[0, 0] == 7000
        assert snapshot.free(CPU)[number % 5, -1] == number % 5 * 1000


def test_an_older_snapshot_can_still_be_viewed() -> None:
    ledger = Ledger()
    state_ = cluster()
    old = state_.node_arrays()
    ledger.put(Reservation.of("default/p", "a", {0: {"cpu": 1000}}, {}))
    state_.upsert_topology(topology(node="a", free=cpus(4, 4)))
    assert free(Snapshot(state_.node_arrays(), ledger))[0] == [3, 4]
    assert free(Snapshot(old, ledger))[0] == [7, 8]


def test_assumed_pods_count_for_exclusivity() -> None:
    ledger = Ledger()
    ledger.put(Reservation.of("default/p", "a", {0: {"cpu": 1}}, {}, policy=NUMAPolicy.SINGLE_NUMA_NODE))
    ledger.put(Reservation.of("default/q", "b", {0: {"cpu": 1}, 1: {"cpu": 1}}, {}, policy=NUMAPolicy.RESTRICTED))
    snapshot = Snapshot(cluster().node_arrays(), ledger)
    assert snapshot.single_residents.T.tolist() == [[1, 0], [0, 0]]
    assert snapshot.multi_residents.T.tolist() == [[0, 0], [1, 1]]


def test_closed_numa_nodes_have_nothing_free() -> None:
    snapshot = Snapshot(cluster().node_arrays())
    closed = snapshot.without(snapshot.free(CPU) > 0)
    assert (closed.free(CPU) == 0).all()
    assert (closed.free(1) == -1).all()
    assert (closed.node_free(CPU) == 16000).all()
