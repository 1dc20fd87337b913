"""What the next leader holds before it has read the owners of what waits, and what the next term of a replica knows."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.clusters import machine
from tests.builders.pods import gated
from tests.property.preemptors import FullCluster, Holder
from tests.unit.controllers.leader import TERM, Leader
from tests.unit.controllers.preemption.leader import PreemptingLeader, begun, high, members, one_node, two_nodes
from webhook.controllers.sweep import WorkClock
from webhook.formats.kubernetes.pod import Owner
from webhook.placing.planner import Attempt, Cycle
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.takeover import UnreadNominations

# n0, n1 ── NUMA 0 [0 of 8], NUMA 1 [0 of 8]; a gang of a Job needs all four

JOB: Mapping[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"namespace": "default", "name": "j", "uid": "j"},
    "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "none"}]}}},
}
OWNERS = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}]}
VICTIMS = ("default/v00", "default/v01", "default/v10", "default/v11")


class OwnedLeader(PreemptingLeader):
    """Its gang belongs to a Job, which is read when the test says so."""

    async def read_owner(self, namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        return JOB

    async def read_owners(self) -> None:
        reading = asyncio.create_task(self.controller._owner_chains.run())
        for _ in range(20):
            await asyncio.sleep(0)
        reading.cancel()


async def preempting() -> OwnedLeader:
    """A leader whose gang has ended four pods."""
    leader = OwnedLeader(two_nodes(), *members(metadata=OWNERS))
    await leader.round()
    await leader.read_owners()
    await leader.round()
    assert sorted(leader.api.evicted) == sorted(VICTIMS)
    return leader


@pytest.mark.parametrize("ended", [0, 4])
async def test_nothing_is_lost_while_the_owners_of_a_gang_are_read(ended: int) -> None:
    leader = await preempting()
    leader.end(*VICTIMS[:ended])
    rival = gated(name="rival", cpu=8, priority=100)
    leader.api.has(rival)
    successor = leader.replaced_by()
    for _ in range(4):
        successor.now += 1.0
        await successor.round()
    assert successor.holds == {}
    assert "rival" in successor.waiting(), "its place is not given to others"
    assert len(successor.nominated()) == 4
    await successor.read_owners()
    await successor.round()
    assert successor.api.evicted == []
    successor.end(*VICTIMS[ended:])
    await successor.round()
    assert successor.waiting() == {"rival"}


async def test_what_waits_for_owners_that_cannot_be_read_is_released_some_seconds_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = await preempting()
    leader.end(*VICTIMS)
    leader.api.has(high("rival"))
    successor = leader.replaced_by()
    await successor.round()
    assert "rival" in successor.waiting()
    monkeypatch.setattr(UnreadNominations, "is_over", lambda self, now: len(self) > 0)
    await successor.round()
    assert "rival" not in successor.waiting()


def test_one_namespace_does_not_wait_for_the_owners_of_another() -> None:
    raws = {
        f"{namespace}/p": {**gated(name="p", namespace=namespace), "status": {"nominatedNodeName": "n0"}}
        for namespace in ("a", "b")
    }
    unread = UnreadNominations()
    unread.begin(raws, 0.0)
    assert unread.ready({"a/p"}, raws, 1.0) == {"a"}
    assert (unread.covers("a"), unread.covers("b")) == (False, True)
    assert unread.ready({"a/p"}, {"a/p": raws["a/p"]}, 2.0) == {"b"}, "a pod that is gone is not waited for"
    assert len(unread) == 0


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


def begin_term(leader: Leader) -> None:
    leader.leads = True
    leader.controller.started(TERM)


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
    begin_term(leader)
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
    begin_term(leader)
    assert not leader.controller.planner.lacking_room.is_known


async def test_a_cycle_does_not_go_on_in_the_next_term_which_knows_of_no_hold_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # n0 ── NUMA 0 [4 of 8: a]  NUMA 1 [0 of 8: b, which stays]
    cluster = FullCluster(("n0",), (Holder("a", "n0", 4, 0, numa=0), Holder("b", "n0", 8, 500, numa=1)))
    leader = await begun(cluster, high("x", cpu=8))
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
