"""Who is kept off held nodes, when a hold ends, and how many more pods end after places were freed in vain."""

from time import monotonic

import pytest

from tests.builders.pods import bound
from tests.property.preemptors import FullCluster, Holder
from tests.unit.controllers.preemption.leader import PreemptingLeader, high, member
from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.placing.preemption.holds import (
    MOST_HOLDS,
    MOST_IN_VAIN,
    MOST_OF_NAMESPACE,
    Hold,
    Holds,
    HoldsInVain,
    Phase,
)

DELETED_AT = 1_893_456_030  # 2030-01-01T00:00:30Z


def hold(name: str, priority: int, *nodes: str) -> Hold:
    return Hold(name, priority, frozenset(nodes), {f"default/{name}": name}, {"default/v": "v"})


def victim(**metadata: str) -> dict[str, BoundPod]:
    raw = bound(name="v", node="n0", metadata=metadata)
    pod = BoundPod.of(raw, ResidentPod.from_object(raw))
    return {pod.key: pod}


def test_held_nodes_are_closed_to_others_of_the_same_or_a_lower_priority() -> None:
    holds = Holds()
    holds.add(hold("a", 10, "n0", "n1"))
    holds.add(hold("b", 20, "n2"))
    assert holds.closed_to("c", 10) == {"n0", "n1", "n2"}
    assert holds.closed_to("c", 11) == {"n2"}
    assert holds.closed_to("c", 21) == frozenset()
    assert holds.closed_to("a", 10) == {"n2"}


def test_a_hold_of_higher_priority_ends_those_that_need_the_same_nodes() -> None:
    holds = Holds()
    low, beside = hold("low", 1, "n0", "n1"), hold("beside", 1, "n2")
    holds.add(low)
    holds.add(beside)
    assert holds.add(hold("high", 2, "n1")) == [low]
    assert {one.name for one in holds} == {"beside", "high"}
    assert holds.of_member("default/low") is None


@pytest.mark.parametrize(
    ("began", "metadata", "at", "date", "over"),
    [
        (0.0, {"deletionTimestamp": "2030-01-01T00:00:30Z"}, 600.0, DELETED_AT + 60, False),
        (0.0, {"deletionTimestamp": "2030-01-01T00:00:30Z"}, 0.0, DELETED_AT + 61, True),
        (100.0, {}, 130.0, 0.0, False),
        (100.0, {}, 131.0, 0.0, True),
        (100.0, {"deletionTimestamp": "2031-01-01T00:00:30Z"}, 760.0, DELETED_AT, False),
        (100.0, {"deletionTimestamp": "2031-01-01T00:00:30Z"}, 761.0, DELETED_AT, True),
    ],
    ids=[
        "victims have their graceful period",
        "and a minute more",
        "an eviction is waited for",
        "for half a minute",
        "a graceful period that others prolonged is waited for",
        "for eleven minutes",
    ],
)
def test_when_a_hold_has_expired(began: float, metadata: dict[str, str], at: float, date: float, over: bool) -> None:
    one = hold("a", 10, "n0")
    one.enter(Phase.ENDING, began)
    assert one.has_expired(at, date, 130.0, victim(**metadata)) is over


def test_a_new_pod_of_the_same_name_is_no_victim() -> None:
    one = hold("a", 10, "n0")
    one.enter(Phase.ENDING, 0.0)
    one.update(1.0, victim(uid="another"))
    assert one.phase is Phase.FREED


def full(*namespaces: str, priority: int = 5) -> Holds:
    """As many places as there may be, held for these namespaces in turn."""
    holds = Holds()
    for number in range(MOST_HOLDS):
        key = f"{namespaces[number % len(namespaces)]}/p{number}"
        holds.add(Hold(key, priority, frozenset({f"n{number}"}), {key: key}, {}))
    return holds


def test_if_there_are_too_many_a_higher_priority_ends_the_lowest() -> None:
    holds = full("a", "b")
    assert holds.must_exceed("c") == 5
    (ended,) = holds.add(Hold("c/p", 6, frozenset({"n"}), {"c/p": "p"}, {}))
    assert ended.priority == 5
    assert len(holds) == MOST_HOLDS


def test_a_namespace_has_half_of_the_places() -> None:
    holds = Holds()
    for number in range(MOST_OF_NAMESPACE):
        key = f"a/p{number}"
        assert holds.must_exceed("a") < 0
        holds.add(Hold(key, 5, frozenset({f"n{number}"}), {key: key}, {}))
    assert holds.must_exceed("a") == 5
    assert holds.must_exceed("b") < 0
    (ended,) = holds.add(Hold("a/p", 6, frozenset({"n"}), {"a/p": "p"}, {}))
    assert ended.namespace == "a"


LATE = 1e9
"""When delays are over, in seconds of `time.monotonic`."""


def hold_of(node: str) -> Hold:
    return Hold(f"pod {node}", 10, frozenset({node}), {"default/p": "p"}, {"default/v": "v"})


def many_nodes(count: int) -> FullCluster:
    """Two pods of 8 CPUs on each node, which has two NUMA nodes of 8."""
    names = tuple(f"n{number}" for number in range(count))
    return FullCluster(
        names, tuple(Holder(f"v-{name}-{numa}", name, 8, 0, numa=numa) for name in names for numa in (0, 1))
    )


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


def test_a_node_is_chosen_again_after_a_newer_report_without_the_victims_or_after_an_hour() -> None:
    written = {"n0": 100}
    found, silent = HoldsInVain(written.get), HoldsInVain(lambda _: None)
    for one in (found, silent):
        one.failed(hold_of("n0"), 0.0)
    found.update(1.0, {})
    assert found.closed == {"n0"}
    written["n0"] = 101
    found.update(1.0, victim())
    assert found.closed == {"n0"}
    found.update(1.0, {})
    assert found.closed == frozenset()
    silent.update(3600.0, {})
    assert silent.closed == {"n0"}
    silent.update(3601.0, {})
    assert silent.closed == frozenset()


def paused(found: HoldsInVain) -> bool:
    return found.is_paused


def test_a_report_lifts_the_pause_until_the_next_one_in_vain() -> None:
    written = {f"n{number}": 100 for number in range(9)}
    found = HoldsInVain(written.get)
    for number in range(MOST_IN_VAIN):
        assert not paused(found)
        found.failed(hold_of(f"n{number}"), 0.0)
    assert paused(found)
    written["n1"] = 200
    found.update(1.0, {})
    assert not paused(found)
    found.failed(hold_of("n8"), 1.0)
    assert paused(found)
    found.succeeded("default")
    assert not paused(found)


async def test_a_success_is_counted() -> None:
    leader = PreemptingLeader(many_nodes(2), high())
    vain = leader.controller.planner.preemptors.in_vain
    for node in ("n8", "n9"):
        vain.failed(hold_of(node), 0.0)
    await leader.round()
    leader.end(*leader.api.evicted)
    await leader.round()
    await leader.round()
    assert leader.nodes()["high"]
    vain.failed(hold_of("n7"), 0.0)
    assert not vain.is_paused


async def in_vain(leader: PreemptingLeader) -> int:
    """Victims end, no exporter shows it, and the hold_of is over; the number of pods that were ended."""
    await leader.round()
    for key in tuple(leader.api.evicted):
        leader.end(key, shown=False)
    await leader.round()
    leader.now += 200.0
    await leader.round()
    assert leader.holds == {}
    return len(leader.api.evicted)


@pytest.mark.parametrize("recreated", [False, True])
@pytest.mark.parametrize("count", [1, 2], ids=["pod", "gang"])
async def test_who_had_a_place_freed_in_vain_ends_no_more_pods_by_being_recreated(
    count: int, *, recreated: bool
) -> None:
    waiting = [high("g-0")] if count == 1 else [member(0, 2), member(1, 2), high("hopeless", priority=-1)]
    leader = PreemptingLeader(many_nodes(6), *waiting)
    assert await in_vain(leader) == count
    last = f"g-{count - 1}"
    if recreated:
        leader.api.delete(f"default/{last}")
        await leader.round()
        another = {"uid": "another"}
        leader.api.has(high(last, metadata=another) if count == 1 else member(1, 2, metadata=another))
    await leader.cycle()
    leader.controller.planner.preemptors._delays._clock = lambda: monotonic() + 10.0
    await leader.round()
    assert len(leader.api.evicted) == count


def test_what_one_namespace_does_in_vain_pauses_it_alone() -> None:
    found = HoldsInVain(lambda _: None)
    for number in range(MOST_IN_VAIN):
        found.failed(hold_of(f"n{number}"), 0.0)
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
