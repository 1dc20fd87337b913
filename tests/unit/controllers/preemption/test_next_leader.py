"""What the next leader holds before it has read the owners of the pods that wait."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders.pods import gated
from tests.unit.controllers.preemption.leader import PreemptingLeader, high, member, two_nodes
from webhook.formats.kubernetes.pod import Owner
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
    leader = OwnedLeader(two_nodes(), *(member(number, metadata=OWNERS) for number in range(4)))
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
    assert len(nominated(successor)) == 4
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


def nominated(leader: PreemptingLeader) -> set[str]:
    return {key for key, raw in leader.api.pods.items() if (raw.get("status") or {}).get("nominatedNodeName")}
