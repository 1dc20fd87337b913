"""Places that were freed in vain: how many more pods end before the leader stops."""

from tests.property.preemptors import Cluster, Placed
from tests.unit.controllers.preemption.leader import PreemptingLeader, high
from webhook.controllers.preemption.holds import Hold
from webhook.controllers.preemption.holds_in_vain import MOST_IN_VAIN, HoldsInVain
from webhook.model.bound_pod import BoundPod
from webhook.model.resident import ResidentPod

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
        leader.controller.preemptors._delays._clock = lambda later=later: later  # type: ignore[misc]


async def test_with_silent_exporters_pods_end_on_three_nodes_only() -> None:
    leader = PreemptingLeader(many_nodes(6), high())
    await silent_rounds(leader, 60)
    nodes = [key.split("-")[1] for key in leader.api.evicted]
    assert len(nodes) == len(set(nodes)) == MOST_IN_VAIN
    assert leader.preemption._is_paused
    assert "preemption is paused: 3 places in a row were freed in vain" in leader.text("high")


async def test_while_it_is_paused_a_place_is_tried_once_an_hour() -> None:
    leader = PreemptingLeader(many_nodes(8), high())
    await silent_rounds(leader, 60)
    await silent_rounds(leader, 3 * 3600 // 50)
    assert MOST_IN_VAIN < len(leader.api.evicted) <= MOST_IN_VAIN + 3 * 3


async def test_the_delay_doubles_and_holds_for_equal_pods() -> None:
    leader = PreemptingLeader(many_nodes(6), high("h0"), high("h1"))
    preemptors = leader.controller.preemptors
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
    found.succeeded()
    assert not paused(found)


async def test_a_success_is_counted() -> None:
    leader = PreemptingLeader(many_nodes(2), high())
    vain = leader.controller.preemptors.in_vain
    for node in ("n8", "n9"):
        vain.failed(hold(node), 0.0)
    await leader.round()
    leader.end(*leader.api.evicted)
    await leader.round()
    await leader.round()
    assert leader.nodes()["high"]
    vain.failed(hold("n7"), 0.0)
    assert not vain.is_paused
