"""A decision is the same whether a resource has a row in the arrays or gets one on demand."""

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import GI, node, pod, resident, topology
from tests.unit.engine.decisions import reasons
from webhook.engine.decide import Decision, decide
from webhook.engine.gang import Gang, Member, PodSet
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.workload_gang import NO_TOPOLOGY
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.rare_resources import MAX_CELLS
from webhook.engine.snapshot.single_node import chosen_node
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.nrt import Publisher
from webhook.model.policy import NUMAPolicy

DEVICES = [f"example.com/d{n}" for n in range(6)]


def cluster(seed: int, cells: int) -> ClusterState:
    """12 nodes of 2 NUMA nodes; each has some of the devices."""
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    state = ClusterState(cells=cells)
    for number in range(12):
        name = f"n{number}"
        has = random.sample(DEVICES, random.randint(0, 3))
        whole = {"cpu": 8000, "memory": 32 * GI} | dict.fromkeys(has, 2)
        allocatable = {"cpu": 16000, "memory": 64 * GI, "pods": 10} | dict.fromkeys(has, 4)
        free = [{key: random.randint(0, amount) for key, amount in whole.items()} for _ in range(2)]
        state.upsert_node(node(name=name, allocatable=allocatable))
        policy, publisher = random.choice(list(NUMAPolicy)), random.choice(list(Publisher))
        state.upsert_topology(topology(node=name, free=free, capacity=whole, policy=policy, publisher=publisher))
        held = dict.fromkeys(has[:1], 1)
        state.upsert_pod(
            resident(name=f"p{number}", node=name, requests={"cpu": 1000, **held}, numa={random.randint(0, 1): held})
        )
    return state


def ledger(seed: int) -> Ledger:
    random = Random(seed)  # noqa: S311
    kept = Ledger()
    for number in range(6):
        device = random.choice(DEVICES)
        kept.put(
            Reservation.of(
                f"default/r{number}", f"n{number}", {random.randint(0, 1): {device: 1, "cpu": 1000}}, {device: 1}
            )
        )
    return kept


def answers(decided: Decision) -> Any:
    best = decided.best(12)
    index = decided.snapshot.node_arrays.index
    return reasons(decided), best, [decided.allocation(index[one.node]) for one in best]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_decision_is_the_same_with_and_without_rows(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    device = random.choice([*DEVICES, "example.com/on-no-node"])
    asked = pod(
        {"cpu": str(random.randint(1, 9)), "memory": "4Gi", device: "1"},
        {random.choice(DEVICES): "1"},
        policy=random.choice([None, "SingleNUMANode", "Restricted", "BestEffort"]),
    )
    intent, _ = parse_numa_intent(asked.annotations)
    ample, scarce = (cluster(seed, cells) for cells in (MAX_CELLS, 6))
    assert len(scarce.node_arrays().resources) == 3
    assert scarce.node_arrays().rare
    assert not ample.node_arrays().rare
    for kept in (None, ledger(seed)):
        one, other = (decide(Snapshot(state.node_arrays(), kept), asked, intent) for state in (ample, scarce))
        assert answers(one) == answers(other)
    for name in ample.nodes:
        snapshots = [chosen_node(state.node_arrays(), ledger(seed), name, "default/r1") for state in (ample, scarce)]
        decided = [decide(snapshot, asked, intent) for snapshot in snapshots if snapshot is not None]
        assert answers(decided[0]) == answers(decided[1])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_group_goes_to_the_same_nodes_with_and_without_rows(seed: int) -> None:
    device = Random(seed).choice(DEVICES)  # noqa: S311
    asked = pod({"cpu": "1", "memory": "1Gi", device: "1"}, policy="SingleNUMANode")
    intent, _ = parse_numa_intent(asked.annotations)
    group = Gang("g", sets=(PodSet("s", asked, intent, tuple(Member(f"m{n}", n) for n in range(3)), 3),))
    assigned = []
    for cells in (MAX_CELLS, 6):
        snapshot = Snapshot(cluster(seed, cells).node_arrays(), ledger(seed))
        placement = assign_gang(snapshot, TopologyTrees().tree(NO_TOPOLOGY, snapshot.node_arrays), group)
        assigned.append(
            (placement.assigned, [(one.name, one.node) for one in placement.pods()] if placement.assigned else [])
        )
    assert assigned[0] == assigned[1]
