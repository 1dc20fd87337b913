"""What remains of nodes beside pods that end only when they are deleted."""

from tests.unit.engine.gang.reserved import snapshot
from webhook.engine.freeing import HeldPod
from webhook.engine.gang.backfill_reservation import LastingCluster

# n0 has two NUMA nodes of 8 CPUs, 8 and 2 of them free.
SERVICE = HeldPod(
    "default/service",
    {"cpu": 3000, "pods": 1, "example.com/unknown": 1},
    {1: {"cpu": 2000, "example.com/unknown": 1}, 7: {"cpu": 9000}},
    {1: {"cpu": 1000}},
    single=(1,),
)


def test_their_amounts_are_taken_from_the_empty_node_and_from_no_other() -> None:
    now = snapshot()
    arrays = now.node_arrays
    lasting = LastingCluster(arrays, lambda node: [SERVICE] if node == "n0" else [])
    assert lasting.snapshot([arrays.index["n1"]]) is None
    beside = lasting.snapshot([arrays.index["n0"]])
    assert beside is not None
    cpu, pods, n = arrays.resources.find("cpu"), arrays.resources.find("pods"), arrays.index["n0"]
    assert beside.free(cpu)[:2, n].tolist() == [8000, 5000]
    assert lasting.empty.free(cpu)[:2, n].tolist() == [8000, 8000]
    assert now.free(cpu)[:2, n].tolist() == [8000, 2000]
    assert (lasting.empty.node_free(cpu) - beside.node_free(cpu)).tolist() == [3000, 0, 0, 0, 0, 0]
    assert (lasting.empty.node_free(pods) - beside.node_free(pods)).tolist() == [1, 0, 0, 0, 0, 0]
    assert beside.single_residents[:, n].tolist()[:2] == [0, 1]
    assert lasting.empty.single_residents.sum() == 0


def test_no_numa_node_has_less_than_nothing() -> None:
    arrays = snapshot().node_arrays
    too_much = HeldPod("default/vast", {"cpu": 99_000}, {0: {"cpu": 99_000}}, {})
    beside = LastingCluster(arrays, lambda node: [too_much]).snapshot([arrays.index["n0"]])
    assert beside is not None
    assert beside.free(arrays.resources.find("cpu"))[:2, arrays.index["n0"]].tolist() == [0, 8000]
