"""The pods of a node show which NUMA nodes its memory manager groups."""

import pytest

from tests.builders import pods
from tests.builders.records import GI, node, pod, state, topology
from webhook.engine import kubelet
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.single_node import chosen_node
from webhook.formats.koordinator.intent import NO_INTENT
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.policy import NUMAPolicy

RESTRICTED, BEST_EFFORT = NUMAPolicy.RESTRICTED, NUMAPolicy.BEST_EFFORT
WHOLE = {"cpu": 16000, "memory": 64 * GI}


def bound(name: str, cpu: int, gib: int, second: int = 0) -> ResidentPod:
    started = {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"2026-11-21T12:00:{second:02}Z"}
    asks = {"cpu": cpu, "memory": f"{gib}Gi", "numa": None}
    return ResidentPod.from_object(pods.bound(name=name, node="n", status={"conditions": [started]}, **asks))


def admitted(
    policy: NUMAPolicy, free: list[tuple[int, int]], pods: list[ResidentPod] | None, cpu: int, gib: int
) -> bool:
    """Whether the node takes a pod. free: cores and GiB of each NUMA node. pods: None = unknown."""
    amounts = [{"cpu": 1000 * cores, "memory": memory * GI} for cores, memory in free]
    node_arrays = state(node(name="n"), topology(node="n", free=amounts, capacity=WHOLE, policy=policy)).node_arrays()
    wanted = pod({"cpu": str(cpu), "memory": f"{gib}Gi"})
    snapshot = chosen_node(node_arrays, Ledger(), "n", wanted.key, pods or ())
    assert snapshot is not None
    if pods is None:
        snapshot.residents = None
    return bool(kubelet.predict(snapshot, PodRequest.of(wanted, NO_INTENT, node_arrays.resources)).fits[0])


# n ── [16 16] cpus, [64 64] GiB, of which [0 12] and [0 48] are free: two pods may hold the rest, each on a NUMA node
# of its own, or one on both, and then no other pod gets its memory from one of them alone.
@pytest.mark.parametrize(
    ("pods", "fits"),
    [
        ([bound("a", 16, 64), bound("b", 4, 16, 1)], True),
        ([bound("ab", 20, 80)], False),
        (None, True),
    ],
)
def test_a_pod_over_two_numa_nodes_keeps_others_from_each_of_them(pods: list[ResidentPod] | None, fits: bool) -> None:
    assert admitted(RESTRICTED, [(0, 0), (12, 48)], pods, cpu=6, gib=6) is fits


# n ── [10 16] cpus, [60 64] GiB free: one pod is on the first NUMA node alone, so none can have memory on both.
@pytest.mark.parametrize(("pods", "fits"), [([bound("a", 6, 4)], False), (None, True)])
def test_a_pod_on_one_numa_node_keeps_others_from_memory_on_both(pods: list[ResidentPod] | None, fits: bool) -> None:
    assert admitted(BEST_EFFORT, [(10, 60), (16, 64)], pods, cpu=20, gib=80) is fits


# n ── [16 10] cpus, [64 60] GiB free: the pod there would have come to the first NUMA node had it been free. Somebody
# who is gone by now held that, and may have been anything.
def test_pods_that_do_not_explain_what_is_free_tell_nothing() -> None:
    free = [(16, 64), (10, 60)]
    assert admitted(BEST_EFFORT, free, [bound("a", 6, 4)], cpu=20, gib=80)
    assert not admitted(BEST_EFFORT, list(reversed(free)), [bound("a", 6, 4)], cpu=20, gib=80)


# n ── [1 4] cpus, [58 62] GiB free: 15 and 12 cores leave room for 4 in the second NUMA node if they came in turn.
def test_pods_are_taken_in_the_order_in_which_they_were_bound() -> None:
    free = [(1, 58), (4, 62)]
    in_turn = [bound("z", 15, 6, 1), bound("a", 12, 2, 2)]
    assert not admitted(BEST_EFFORT, free, in_turn, cpu=5, gib=80)
    assert admitted(BEST_EFFORT, free, [bound("z", 15, 6, 2), bound("a", 12, 2, 1)], cpu=5, gib=80)
