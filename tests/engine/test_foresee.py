"""Pods that were bound unguarded: what their kubelet gave them, as far as the order of bindings tells."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.engine.machines import cpus, node, resident, state, topology
from webhook.engine.foresee import foresee
from webhook.engine.one_node import node_alone
from webhook.engine.reserve.unguarded import Certainty, Foreseen, Unguarded
from webhook.engine.sums import NodeSums, NumaAmounts
from webhook.model.containers import Container
from webhook.model.nrt import NodeTopology, Publisher
from webhook.model.pod import ContainerKind
from webhook.model.policy import NUMAPolicy
from webhook.model.resident import ResidentPod

Told = tuple[Certainty, NumaAmounts]
KNOWN = Certainty.KNOWN
UNKNOWN: Told = (Certainty.UNKNOWN, {})
NO_ROOM: Told = (Certainty.NO_ROOM, {})


def bound(name: str, cpu: int, at: int, numa: int | None = None, policy: NUMAPolicy | None = None) -> ResidentPod:
    """A pod that was bound at a second, with a hint or without. The order of two of one second is not known."""
    amounts = {"cpu": 1000 * cpu}
    record = resident(name, "n", amounts, None if numa is None else {numa: amounts}, policy=policy)
    containers = (Container("main", ContainerKind.APP, amounts, amounts),)
    return replace(record, containers=containers, bound_at=at, started=False, unguarded=numa is None)


def on(numa: int, cpu: int) -> NumaAmounts:
    return {numa: {"cpu": 1000 * cpu}}


# n ── NUMA 0 [16]  NUMA 1 [16]      [cpus, all of them free]
EMPTY = topology("n", cpus(16, 16))


def foreseen(
    *arrivals: ResidentPod,
    nrt: NodeTopology = EMPTY,
    before: Sequence[ResidentPod] = (),
    doubtful: Sequence[int] = (),
    in_time: bool = True,
) -> Mapping[str, Foreseen]:
    snapshot = state(node("n"), nrt, *before, *arrivals).snapshot()
    alone = node_alone(snapshot, "n", before)
    assert alone is not None
    sums = NodeSums()
    for pod in before:
        if nrt.publisher is not Publisher.TOTAL:
            sums.add(dict(pod.hint or ()), {}, pod.policy, 1)
    groups = [[pod for pod in arrivals if pod.bound_at == at] for at in sorted({pod.bound_at or 0 for pod in arrivals})]
    return foresee(alone, Unguarded(groups, before, sums, frozenset(doubtful), in_time))


def told(found: Mapping[str, Foreseen]) -> dict[str, Told]:
    """What is said of each pod, by its name."""
    return {key.removeprefix("default/"): (one.certainty, one.place) for key, one in found.items()}


def together(found: Mapping[str, Foreseen], *left: str) -> dict[int, int]:
    """How many cpus those that are left may have, by NUMA node."""
    (among,) = {one.together for one in found.values() if one.together is not None}
    most = among.most([f"default/{name}" for name in left])
    return {numa_id: amounts["cpu"] // 1000 for numa_id, amounts in most.items()}


def test_each_gets_the_first_numa_node_with_room_in_the_order_of_binding() -> None:
    found = foreseen(bound("a", 9, at=1), bound("b", 9, at=2), bound("c", 7, at=3))
    assert told(found) == {"a": (KNOWN, on(0, 9)), "b": (KNOWN, on(1, 9)), "c": (KNOWN, on(0, 7))}


def test_what_was_there_before_is_taken() -> None:
    found = foreseen(bound("b", 9, at=2), before=[bound("a", 9, at=1, numa=0)])
    assert told(found) == {"b": (KNOWN, on(1, 9))}


def test_one_for_which_there_is_no_room_is_rejected_and_holds_nothing() -> None:
    found = foreseen(bound("a", 9, at=1), bound("b", 9, at=2), bound("c", 9, at=3))
    assert told(found)["c"] == NO_ROOM


def test_of_equal_pods_bound_in_an_unknown_order_it_is_known_what_they_have_together() -> None:
    found = foreseen(bound("a", 9, at=1), bound("b", 9, at=1))
    assert told(found) == {"a": UNKNOWN, "b": UNKNOWN}
    assert together(found, "a", "b") == {0: 9, 1: 9}
    assert together(found, "b") == {0: 9, 1: 9}


def test_which_of_them_does_not_matter_where_they_share_a_numa_node() -> None:
    found = foreseen(bound("a", 4, at=1), bound("b", 4, at=1))
    assert told(found) == {"a": (KNOWN, on(0, 4)), "b": (KNOWN, on(0, 4))}


def test_of_unequal_pods_bound_in_an_unknown_order_the_most_is_kept_that_they_take_in_any_order() -> None:
    found = foreseen(bound("a", 9, at=1), bound("b", 10, at=1))
    assert together(found, "a", "b") == {0: 10, 1: 10}
    assert together(found, "a") == {0: 9, 1: 9}


def test_a_hint_does_not_tell_the_order_for_its_giver_may_not_have_known_of_the_others() -> None:
    found = foreseen(bound("a", 9, at=1), bound("b", 9, at=1, numa=0))
    assert told(found) == {"a": UNKNOWN}
    assert together(found, "a") == {0: 9, 1: 9}


def test_where_a_hint_is_not_what_comes_out_both_are_taken_and_doubted() -> None:
    # b must be on NUMA 1. Whatever says that it is on NUMA 0 may know of somebody who has left.
    found = foreseen(bound("a", 9, at=1), bound("b", 7, at=2, numa=1), bound("c", 7, at=3))
    assert told(found) == {"a": (KNOWN, on(0, 9)), "c": UNKNOWN}
    assert together(found, "c") == {0: 7, 1: 7}


def test_one_that_has_started_was_not_rejected() -> None:
    # a, b, c: NUMA 0, NUMA 1, no room for c. As c has started it came before b, or before a.
    pods = bound("a", 6, at=1), bound("b", 12, at=1), bound("c", 11, at=1)
    assert together(foreseen(*pods), "a", "b", "c") == {0: 12, 1: 12}
    started = foreseen(*pods[:2], replace(pods[2], started=True))
    assert together(started, "c") == {0: 11, 1: 11}
    alone = foreseen(replace(pods[2], started=True), before=[bound("x", 9, 0, numa=0), bound("y", 9, 0, numa=1)])
    assert together(alone, "c") == {0: 11, 1: 11}


def test_a_numa_node_that_may_have_had_room_counts_too_if_a_kubelet_prefers_it() -> None:
    before = [bound("x", 16, at=1, numa=0)]
    found = foreseen(bound("a", 9, at=2), before=before, doubtful=[0])
    assert told(found) == {"a": UNKNOWN}
    assert together(found, "a") == {0: 9, 1: 9}
    assert told(foreseen(bound("a", 9, at=2), before=before, doubtful=[1])) == {"a": (KNOWN, on(1, 9))}
    assert told(foreseen(bound("a", 9, at=2), doubtful=[0, 1])) == {"a": (KNOWN, on(0, 9))}


def test_where_one_may_have_left_room_the_next_one_may_be() -> None:
    before = [bound("x", 8, at=1, numa=0)]
    # a on NUMA 1 leaves no room for b. It may be on NUMA 0, and then b is on 1.
    found = foreseen(bound("a", 9, at=2), bound("b", 9, at=3), before=before, doubtful=[0])
    assert told(found) == {"a": UNKNOWN, "b": UNKNOWN}
    assert min(together(found, "b").values()) >= 9
    assert together(found, "b").keys() == {0, 1}


def test_an_nrt_from_after_the_binding_tells_nothing_of_the_time_before() -> None:
    found = foreseen(bound("a", 9, at=2), in_time=False)
    assert told(found) == {"a": UNKNOWN}
    assert together(found, "a") == {0: 9, 1: 9}


def test_too_many_orders_are_not_tried() -> None:
    found = foreseen(*[bound(f"p{cpu}", cpu, at=1) for cpu in range(1, 8)])
    assert told(found)["p7"] == UNKNOWN
    assert together(found, "p7") == {0: 7, 1: 7}


def test_many_equal_pods_are_one_order() -> None:
    names = [f"p{number}" for number in range(20)]
    found = foreseen(*[bound(name, 1, at=1) for name in names])
    assert together(found, *names) == {0: 16, 1: 4}
    assert together(found, *names[:10]) == {0: 10, 1: 4}


def test_a_pod_without_exclusive_resources_holds_nothing_of_a_numa_node() -> None:
    shared = replace(bound("a", 2, at=1), containers=(), exclusive_resources=False)
    assert told(foreseen(shared)) == {"a": (KNOWN, {})}
    assert told(foreseen(shared, in_time=False)) == {"a": (KNOWN, {})}


@pytest.mark.parametrize("policy", [NUMAPolicy.SINGLE_NUMA_NODE, None])
def test_where_the_numa_nodes_are_ours_to_choose_each_is_given_some(policy: NUMAPolicy | None) -> None:
    # Not taken as it came: b has a hint for what a would have had.
    totals = topology("n", cpus(16, 16), publisher=Publisher.TOTAL, policy=NUMAPolicy.NONE)
    hinted = bound("b", 9, at=2, numa=0)
    found = told(
        foreseen(bound("a", 9, 1, policy=policy), bound("c", 9, 1, policy=policy), nrt=totals, before=[hinted])
    )
    assert found == ({"a": (KNOWN, {}), "c": (KNOWN, {})} if policy is None else {"a": (KNOWN, on(1, 9)), "c": NO_ROOM})
