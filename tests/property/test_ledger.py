"""The ledger compared with plain sums: reserve and release are inverse, and no amount becomes negative."""

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import node, resident, state, topology
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy

NODES = st.sampled_from(["a", "b", "c", "gone"])
KEYS = st.sampled_from([f"default/{name}" for name in "pqrs"])
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "x.io/gpu", "example.com/on-no-node"]), st.integers(0, 6), max_size=2)
NUMA = st.dictionaries(st.integers(0, 3), AMOUNTS, max_size=3)
RESERVE = st.tuples(st.just("reserve"), KEYS, NODES, NUMA, st.none() | AMOUNTS, st.none() | st.sampled_from(NUMAPolicy))
EVENTS = st.one_of(
    RESERVE,
    st.tuples(st.just("release"), KEYS),
    st.tuples(st.just("delete_node"), st.sampled_from("abc")),
    st.tuples(st.just("upsert_node"), st.sampled_from("abc")),
    st.tuples(st.just("free"), st.sampled_from("abc"), st.lists(st.integers(0, 9), min_size=1, max_size=4)),
    st.tuples(st.just("resident"), st.sampled_from("abc")),
    st.just(("view",)),
    st.just(("hold",)),
    st.just(("let_go",)),
)
ALLOCATABLE = {"cpu": 20, "x.io/gpu": 4, "pods": 9}


class Model:
    """Reservations as a plain dictionary: pod -> [node, NUMA amounts, requests (None: the node counts it), policy]."""

    def __init__(self) -> None:
        self.assumed: dict[str, list[Any]] = {}

    def apply(self, event: tuple[Any, ...]) -> None:
        match event:
            case ("reserve", pod, node, numa, requests, policy):
                self.assumed[pod] = [node, numa, requests, policy]
            case ("release", pod):
                self.assumed.pop(pod, None)

    def check(self, snapshot: Snapshot) -> None:
        """Compare every amount of the snapshot with plain sums."""
        node_arrays = snapshot.node_arrays
        for n, name in enumerate(node_arrays.names):
            mine = [assume for assume in self.assumed.values() if assume[0] == name]
            for row, resource in enumerate(node_arrays.resources):
                for z, numa_id in enumerate(node_arrays.zone_ids[:, n].tolist()):
                    published = int(node_arrays.available[row, z, n])
                    taken = sum(numa.get(numa_id, {}).get(resource, 0) for _, numa, _, _ in mine)
                    expected = published if published < 0 else max(published - taken, 0)
                    assert snapshot.free(row)[z, n] == expected
                asked = [requests for _, _, requests, _ in mine if requests is not None]
                used = len(asked) if resource == "pods" else sum(requests.get(resource, 0) for requests in asked)
                assert snapshot.node_free(row)[n] == node_arrays.node_free[row, n] - used
            for z, numa_id in enumerate(node_arrays.zone_ids[:, n].tolist()):
                here = [(policy, numa) for _, numa, _, policy in mine if numa_id in numa]
                single = sum(policy is NUMAPolicy.SINGLE_NUMA_NODE for policy, _ in here)
                multi = sum(policy is not NUMAPolicy.SINGLE_NUMA_NODE and len(numa) > 1 for policy, numa in here)
                assert snapshot.single_residents[z, n] == node_arrays.single_residents[z, n] + single
                assert snapshot.multi_residents[z, n] == node_arrays.multi_residents[z, n] + multi


@settings(deadline=None, max_examples=200)
@given(st.lists(EVENTS, max_size=40))
def test_a_view_is_the_snapshot_minus_plain_sums(events: list[tuple[Any, ...]]) -> None:
    cluster = state(*(node(name=name, allocatable=ALLOCATABLE) for name in "abc"))
    ledger, model = Ledger(), Model()
    held: list[tuple[Snapshot, Model]] = []
    for number, event in enumerate(events):
        match event:
            case ("hold",):
                held.append((Snapshot(cluster.node_arrays(), ledger), deepcopy(model)))
            case ("let_go",) if held:
                snapshot, then = held.pop(0)
                then.check(snapshot)
                del snapshot
            case ("reserve", pod, where, numa, requests, policy):
                ledger.put(Reservation.of(pod, where, numa, requests, policy=policy))
            case ("free", name, amounts):
                free = [{"cpu": amount, "x.io/gpu": amount // 3} for amount in amounts]
                cluster.upsert_topology(topology(node=name, free=free, capacity={"cpu": 9, "x.io/gpu": 3}))
            case ("resident", name):
                cluster.upsert_pod(
                    resident(
                        name=f"r{number}",
                        node=name,
                        requests={"cpu": 1},
                        numa={0: {"cpu": 1}},
                        policy=NUMAPolicy.RESTRICTED,
                    )
                )
            case ("upsert_node", name):
                cluster.upsert_node(node(name=name, allocatable=ALLOCATABLE))
            case ("delete_node", name):
                cluster.delete_node(name)
            case ("view",):
                model.check(Snapshot(cluster.node_arrays(), ledger))
            case ("release", pod):
                ledger.release(pod)
        model.apply(event)
    model.check(Snapshot(cluster.node_arrays(), ledger))
    assert {reservation.pod for reservation in ledger} == set(model.assumed)


@settings(deadline=None)
@given(st.lists(RESERVE, max_size=12), st.lists(RESERVE, max_size=12), st.randoms())
def test_releasing_all_that_was_reserved_leaves_no_trace(before: list[Any], events: list[Any], random: Any) -> None:
    ledger = Ledger()
    for number, (_, _, where, numa, requests, policy) in enumerate(before):
        ledger.put(Reservation.of(f"default/before-{number}", where, numa, requests, policy=policy))
    kept = {name: deepcopy(ledger.sums(name)) for name in ("a", "b", "c", "gone")}
    pods = []
    for number, (_, _, where, numa, requests, policy) in enumerate(events):
        pods.append(f"default/after-{number}")
        ledger.put(Reservation.of(pods[-1], where, numa, requests, policy=policy))
    random.shuffle(pods)
    for pod in pods:
        ledger.release(pod)
    assert {name: ledger.sums(name) for name in kept} == kept
