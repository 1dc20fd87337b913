"""A pod behind the gate that no node could take any more is left to the scheduler: see tests/unit/admission too."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.builders.clusters import cluster_snapshot, put
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from tests.unit.controllers.leader import HangingLeader
from tests.unit.controllers.placement.peers import burstable
from webhook.engine.decide import Decision
from webhook.engine.snapshot.ledger import Reservation
from webhook.placing.pod.assignment import NoAssignment, find_assignment
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules

POOL = {"pool": "gpu"}
TOLD = "its own node selector, affinity and tolerations let it onto none"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


def waiting(name: str = "p", group: str = "", **spec: Any) -> dict[str, Any]:
    return gated(name=name, group=group, **{"nodeSelector": POOL, **spec})


async def ungated(site: HangingLeader) -> list[str]:
    """The pods that one cycle ungates."""
    site.api.answers.set()
    site.turn()
    for _ in range(3):
        await asyncio.sleep(0)
    return [event.key for event in site.api.events if event.reason == "Ungated"]


async def test_it_is_ungated_at_once_and_says_why() -> None:
    site = HangingLeader(waiting("p"), waiting("q"), waiting("fits", nodeSelector={}))
    assert sorted(await ungated(site)) == ["default/p", "default/q"]
    (note,) = {event.note for event in site.api.events if event.reason == "Ungated"}
    assert note == f"left to the scheduler until a node is added: {TOLD}"
    assert sorted(site.api.patched) == ["default/fits", "default/p", "default/q"]


async def test_members_of_a_group_are_not() -> None:
    site = HangingLeader(waiting("a", group="g"), waiting("b", group="g"))
    assert await ungated(site) == []


async def test_it_stays_behind_the_gate_if_a_node_has_come_meanwhile() -> None:
    site = HangingLeader(waiting(nodeSelector={"kubernetes.io/hostname": "new"}))
    site.turn()
    put(site.cache, node(name="new"))
    assert await ungated(site) == []


def nobody(node: str) -> tuple[Reservation, ...]:
    del node
    return ()


@pytest.mark.parametrize(
    ("cluster", "spec"),
    [
        (cluster_snapshot(node(name="a"), nrt(node="a", free=[0])), {"nodeSelector": {}}),
        (cluster_snapshot(node(name="a")), {"nodeSelector": {}}),
        (cluster_snapshot(node(name="a", unschedulable=True), nrt(node="a", free=[16])), {"nodeSelector": {}}),
    ],
)
def test_one_that_waits_for_others_to_leave_or_for_an_exporter_stays(
    cluster: ClusterSnapshot, spec: dict[str, Any]
) -> None:
    assert isinstance(find_assignment(cluster.nodes, GatedPod.from_object(waiting(**spec)), Rules(), nobody), Decision)


def test_one_that_its_owners_policy_would_have_denied_stays_and_says_so() -> None:
    refusing = Rules(not_alignable="Deny")
    cluster = cluster_snapshot(node(name="a", cpus=1), nrt(node="a", free=[16]))
    found = [
        find_assignment(cluster.nodes, burstable("p", inherits=inherits, group="", cpu="4"), refusing, nobody)
        for inherits in (True, False)
    ]
    assert [isinstance(one, NoAssignment) and one.awaits_node for one in found] == [False, True]
