"""A term that ends while a cycle collects its pods, and what the next term of the same replica then knows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.clusters import machine
from tests.builders.pods import gated
from tests.property.preemptors import Cluster, Placed
from tests.unit.controllers.leader import Leader
from tests.unit.controllers.preemption.leader import PreemptingLeader, high, one_node
from tests.unit.controllers.site import TERM
from webhook.controllers.sweep import WorkClock
from webhook.placing.planner import Attempt, Cycle
from webhook.placing.pod.gated_pods import GatedPod


async def end_term(leader: Leader, monkeypatch: pytest.MonkeyPatch, *, during_a_cycle: bool) -> None:
    """The term ends, perhaps while a cycle collects its pods."""

    def end() -> None:
        leader.leads = False
        leader.controller.stopped()

    of = leader.controller._ready.of

    async def and_the_term_ends(
        gated: Mapping[str, Mapping[str, Any]], cycle: Cycle, work: WorkClock
    ) -> list[GatedPod]:
        found = await of(gated, cycle, work)
        end()
        return found

    if not during_a_cycle:
        end()
        return
    with monkeypatch.context() as patched:
        patched.setattr(leader.controller._ready, "of", and_the_term_ends)
        await leader.cycle()


@pytest.mark.parametrize("during_a_cycle", [False, True])
async def test_the_next_term_takes_over_what_the_leader_in_between_holds(
    monkeypatch: pytest.MonkeyPatch, *, during_a_cycle: bool
) -> None:
    # n0 ── NUMA 0 [0 of 8: a]  NUMA 1 [0 of 8: b]
    leader = PreemptingLeader(one_node())
    leader.api.has(gated(name="waits", cpu=64))
    await leader.round()
    await end_term(leader, monkeypatch, during_a_cycle=during_a_cycle)
    # Another replica leads. It ends a pod for x; the exporter has not shown that yet.
    leader.api.has({**high("x"), "status": {"nominatedNodeName": "n0"}})
    leader.end("default/a", shown=False)
    # This one leads again.
    leader.leads = True
    leader.controller.started(TERM)
    await leader.cycle()
    assert leader.holds == {"pod x": {"n0"}}


@pytest.mark.parametrize("during_a_cycle", [False, True])
async def test_no_unit_counts_as_looked_at_before_the_first_cycle_of_a_term(
    monkeypatch: pytest.MonkeyPatch, *, during_a_cycle: bool
) -> None:
    leader = Leader(*machine(name="n0", free=(8, 8)), autoscaler="ClusterAutoscaler")
    leader.api.has(gated(name="waits", cpu=64))
    await leader.cycle()
    await end_term(leader, monkeypatch, during_a_cycle=during_a_cycle)
    leader.leads = True
    leader.controller.started(TERM)
    assert not leader.controller.planner.lacking_room.is_known


async def test_a_cycle_does_not_go_on_in_the_next_term_which_knows_of_no_hold_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # n0 ── NUMA 0 [4 of 8: a]  NUMA 1 [0 of 8: b, which stays]
    cluster = Cluster(("n0",), (Placed("a", "n0", 4, 0, numa=0), Placed("b", "n0", 8, 500, numa=1)))
    leader = PreemptingLeader(cluster, high("x", cpu=8))
    await leader.round()
    assert leader.holds == {"pod x": {"n0"}}
    leader.api.has(high("rival", cpu=4, second=1))
    await leader.cycle()
    assert leader.waiting() == {"x", "rival"}
    attempt_pod = leader.controller.planner.attempt_pod

    def and_another_term_begins(unit: GatedPod, cycle: Cycle, known: Any) -> Attempt:
        attempt = attempt_pod(unit, cycle, known)
        if unit.pod.name == "x":
            leader.controller.stopped()
            leader.controller.started(replace(TERM, name="the next"))
        return attempt

    monkeypatch.setattr(leader.controller.planner, "attempt_pod", and_another_term_begins)
    await leader.cycle()
    assert leader.waiting() == {"x", "rival"}
