"""Places that were freed in vain: how many more pods end before the leader stops."""

from time import monotonic

import pytest

from tests.property.preemptors import Cluster, Placed
from tests.unit.controllers.preemption.leader import PreemptingLeader, high, member
from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.placing.preemption.holds import MOST_IN_VAIN, Hold, HoldsInVain

LATE = 1e9
"""When delays are over, in seconds of `time.monotonic`."""


def hold(node: str) -> Hold:
    return Hold(f"pod {node}", 10, frozenset({node}), {"default/p": "p"}, {"default/v": "v"})


def many_nodes(count: int) -> Cluster:
    """Two pods of 8 CPUs on each node, which has two NUMA nodes of 8."""
    names = tuple(f"n{number}" for number in range(count))
    return Cluster(names, tuple(Placed(f"v-{name}-{numa}", name, 8, 0, numa=numa) for name in names for numa in (0, 1)))


async def silent_rounds(leader: PreemptingLeader, count: int, *, seconds: float = 50.0) -> None:
    """Victims end, no exporter shows it, and the delays of a preemptor are over each time."""
    for _ in range(count):
        await leader.round()
        for key in [key for key, raw in leader.api.pods.items() if "deletionTimestamp" in raw["metadata"]]:
            leader.end(key, shown=False)
        leader.now += seconds
        later = LATE * (1 + leader.now)
        leader.controller.planner.preemptors._delays._clock = lambda later=later: later  # type: ignore[misc]


async def test_with_silent_exporters_pods_end_on_three_nodes_only() -> None:
    leader = PreemptingLeader(many_nodes(6), high())
    await silent_rounds(leader, 60)
    nodes = [key.split("-")[1] for key in leader.api.evicted]
    assert len(nodes) == len(set(nodes)) == MOST_IN_VAIN
    assert leader.preemption._is_paused
    assert "preemption is paused: nodes were freed without effect 3 times in a row" in leader.text("high")


async def test_while_it_is_paused_a_place_is_tried_once_an_hour() -> None:
    leader = PreemptingLeader(many_nodes(8), high())
    await silent_rounds(leader, 60)
    await silent_rounds(leader, 3 * 3600 // 50)
    assert MOST_IN_VAIN < len(leader.api.evicted) <= MOST_IN_VAIN + 3 * 3


async def test_the_delay_doubles_and_holds_for_equal_pods() -> None:
    leader = PreemptingLeader(many_nodes(6), high("h0"), high("h1"))
    preemptors = leader.controller.planner.preemptors
    await leader.cycle()
    kind = preemptors._kind_of["pod h0"]
    assert kind == preemptors._kind_of["pod h1"]
    for minutes in (1, 2, 4, 8, 16, 32, 64, 64):
        preemptors._delays._clock = lambda: 0.0
        preemptors.ended_in_vain(Hold("pod h0", 100, frozenset({"n0"}), {}, {}), 0.0)
        preemptors._delays._clock = lambda minutes=minutes: minutes * 60 - 1.0  # type: ignore[misc]
        assert preemptors.next() is None
        preemptors._delays._clock = lambda minutes=minutes: minutes * 60 + 1.0  # type: ignore[misc]
        assert preemptors.next() is not None


def test_a_node_is_chosen_again_after_a_newer_report_without_the_victims() -> None:
    written = {"n0": 100}
    found = HoldsInVain(written.get)
    found.failed(hold("n0"), 0.0)
    raw = {"metadata": {"name": "v", "namespace": "default", "uid": "v"}, "spec": {}}
    victim = BoundPod.of(raw, ResidentPod.from_object(raw))
    found.update(1.0, {})
    assert found.closed == {"n0"}
    written["n0"] = 101
    found.update(1.0, {"default/v": victim})
    assert found.closed == {"n0"}
    found.update(1.0, {})
    assert found.closed == frozenset()


def test_a_node_that_never_reports_is_chosen_again_after_an_hour() -> None:
    found = HoldsInVain(lambda _: None)
    found.failed(hold("n0"), 0.0)
    found.update(3600.0, {})
    assert found.closed == {"n0"}
    found.update(3601.0, {})
    assert found.closed == frozenset()


def paused(found: HoldsInVain) -> bool:
    return found.is_paused


def test_a_report_lifts_the_pause_until_the_next_one_in_vain() -> None:
    written = {f"n{number}": 100 for number in range(9)}
    found = HoldsInVain(written.get)
    for number in range(MOST_IN_VAIN):
        assert not paused(found)
        found.failed(hold(f"n{number}"), 0.0)
    assert paused(found)
    written["n1"] = 200
    found.update(1.0, {})
    assert not paused(found)
    found.failed(hold("n8"), 1.0)
    assert paused(found)
    found.succeeded("default")
    assert not paused(found)


async def test_a_success_is_counted() -> None:
    leader = PreemptingLeader(many_nodes(2), high())
    vain = leader.controller.planner.preemptors.in_vain
    for node in ("n8", "n9"):
        vain.failed(hold(node), 0.0)
    await leader.round()
    leader.end(*leader.api.evicted)
    await leader.round()
    await leader.round()
    assert leader.nodes()["high"]
    vain.failed(hold("n7"), 0.0)
    assert not vain.is_paused


async def in_vain(leader: PreemptingLeader) -> int:
    """Victims end, no exporter shows it, and the hold is over; the number of pods that were ended."""
    await leader.round()
    for key in tuple(leader.api.evicted):
        leader.end(key, shown=False)
    await leader.round()
    leader.now += 200.0
    await leader.round()
    assert leader.holds == {}
    return len(leader.api.evicted)


@pytest.mark.parametrize("recreated", [False, True])
async def test_a_pod_whose_place_was_freed_in_vain_ends_no_more_pods_by_being_recreated(*, recreated: bool) -> None:
    leader = PreemptingLeader(many_nodes(6), high())
    ended = await in_vain(leader)
    assert ended == 1
    if recreated:
        leader.api.delete("default/high")
        await leader.round()
        leader.api.has(high(metadata={"uid": "another"}))
    await leader.round()
    assert len(leader.api.evicted) == ended


@pytest.mark.parametrize("recreated", [False, True])
async def test_nor_does_a_gang_of_which_a_member_is_recreated(*, recreated: bool) -> None:
    leader = PreemptingLeader(many_nodes(6), member(0, 2), member(1, 2), high("hopeless", priority=-1))
    ended = await in_vain(leader)
    assert ended == 2
    if recreated:
        leader.api.delete("default/g-1")
        await leader.round()
        leader.api.has(member(1, 2, metadata={"uid": "another"}))
    await leader.cycle()
    leader.controller.planner.preemptors._delays._clock = lambda: monotonic() + 10.0
    await leader.round()
    assert len(leader.api.evicted) == ended


def test_what_one_namespace_does_in_vain_pauses_it_alone() -> None:
    found = HoldsInVain(lambda _: None)
    for number in range(MOST_IN_VAIN):
        found.failed(hold(f"n{number}"), 0.0)
    assert (found.is_paused_for("default"), found.is_paused_for("other")) == (True, False)
    found.failed(Hold("pod x", 10, frozenset({"n9"}), {"other/p": "p"}, {}), 0.0)
    assert found.is_paused_for("third"), "two tenants have the same fault"


async def test_a_preemptor_that_asks_for_something_else_meanwhile_is_no_sign_of_a_fault() -> None:
    leader = PreemptingLeader(many_nodes(3), high())
    await leader.round()
    (victim,) = leader.api.evicted
    raw = leader.api.pods["default/high"]
    leader.api.has({**raw, "metadata": {**raw["metadata"], "annotations": {NUMA_TOPOLOGY_SPEC: "unreadable"}}})
    leader.end(victim, shown=False)
    await leader.round()
    leader.now += 200.0
    await leader.round()
    assert leader.holds == {}
    in_vain = leader.controller.planner.preemptors.in_vain
    assert (in_vain.closed, in_vain.is_paused) == (frozenset(), False)
    assert not in_vain._in_a_row
