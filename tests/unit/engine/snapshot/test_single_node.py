"""The decision on one node is the same as its part of the decision on all nodes."""

from tests.builders.records import cpus, node, pod, resident, state, topology
from webhook.engine.decide import decide
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.single_node import as_chosen, chosen_node
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.model.policy import NUMAPolicy

# n0 ── [8 8]   n1 ── [4 8]   n2 ── [4 4]   n3 ── [2 8], of which 6 are promised      [free cpus per NUMA node]
FREE = {"n0": (8, 8), "n1": (4, 8), "n2": (4, 4), "n3": (2, 8)}


def test_the_decision_is_the_one_among_all_nodes() -> None:
    cluster = state(
        *(node(name=name, labels={"disk": "ssd"}) for name in FREE),
        *(topology(node=name, free=cpus(*free), capacity={"cpu": 8000}) for name, free in FREE.items()),
        resident(
            name="r", node="n1", requests={"cpu": 4000}, numa={0: {"cpu": 4000}}, policy=NUMAPolicy.SINGLE_NUMA_NODE
        ),
    )
    ledger = Ledger()
    ledger.put(Reservation.of("default/other", "n3", {1: {"cpu": 6000}}, {"cpu": 6000}))
    asked = pod({"cpu": "6", "memory": "1Gi"}, policy="SingleNUMANode", spec={"nodeSelector": {"disk": "ssd"}})
    intent, _ = parse_numa_intent(asked.annotations)
    node_arrays = cluster.node_arrays()
    among_all = decide(Snapshot(node_arrays, ledger), asked, intent)
    for name, n in node_arrays.index.items():
        snapshot = chosen_node(node_arrays, ledger, name, asked.key)
        assert snapshot is not None
        alone = decide(snapshot, as_chosen(asked), intent)
        assert alone.explain(0) == among_all.explain(n)
        assert (alone.fits[0], alone.score[0]) == (among_all.fits[n], among_all.score[n])
        if alone.fits[0]:
            assert alone.allocation(0) == among_all.allocation(n)
    assert [bool(among_all.fits[node_arrays.index[name]]) for name in FREE] == [True, True, False, False]


def test_a_pods_own_assumed_pod_is_free_to_it_and_no_other() -> None:
    node_arrays = state(node(name="n"), topology(node="n", free=cpus(8))).node_arrays()
    ledger = Ledger()
    ledger.put(Reservation.of("default/a", "n", {0: {"cpu": 6000}}, {"cpu": 6000}))
    ledger.put(Reservation.of("default/b", "n", {0: {"cpu": 1000}}, {"cpu": 1000}))

    def free_to(key: str) -> int:
        snapshot = chosen_node(node_arrays, ledger, "n", key)
        assert snapshot is not None
        return int(snapshot.free(node_arrays.resources.find("cpu"))[0, 0])

    assert (free_to("default/a"), free_to("default/b"), free_to("default/c")) == (7000, 2000, 1000)


def test_a_node_that_is_not_known_has_no_view() -> None:
    assert chosen_node(state().node_arrays(), Ledger(), "n", "default/p") is None
