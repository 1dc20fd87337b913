"""What is kept for a group that has waited long, and from whom."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from tests.builders.gangs import TOPOLOGY
from tests.builders.pods import gated
from tests.unit.controllers.placement.peers import nobody
from tests.unit.engine.gang.reserved import snapshot
from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.controllers.placement.assignment import Assignment, NoAssignment, find_assignment, why_unassigned, without
from webhook.controllers.placement.assignment_writer import AssignmentWriter
from webhook.controllers.placement.gated_gang import GangAssigner, GatedGang, units_of
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.decide import Decision
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.membership import AssignedMember
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY
from webhook.model.rules import Rules

# The cluster of test_soonest: of its racks rack-2 (n2, n3) holds most of a group that needs whole NUMA nodes.
MEMBERS = 3


class Cluster:
    """Nothing changes in it, and nobody has a place."""

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(snapshot(), {TOPOLOGY.name: TOPOLOGY})

    def assigned_members(self, group: str) -> Mapping[str, AssignedMember]:
        del group
        return {}

    def chosen_node(self, node: str, pod: str) -> Snapshot | None:
        raise AssertionError((node, pod))

    def assume(self, assumed_pod: AssumedPod) -> None:
        raise AssertionError(assumed_pod)

    def forget(self, assumed_pod: AssumedPod) -> None:
        raise AssertionError(assumed_pod)


def member(name: str, created: str) -> GatedPod:
    raw = gated(name=name, group="g")
    raw["metadata"]["creationTimestamp"] = created
    raw["metadata"]["annotations"] |= {KAI_TOPOLOGY: TOPOLOGY.name, KAI_REQUIRED_PLACEMENT: "rack"}
    return GatedPod.from_object(raw)


async def waits(reserve_after: float, created: str = "2020-01-01T00:00:00Z", *, members: int = MEMBERS) -> NoAssignment:
    """Why a group has no place."""
    pods = [member(f"w-{number}", created) for number in range(members)]
    (gang,) = units_of(pods)
    assert isinstance(gang, GatedGang)
    cluster: Any = Cluster()
    placer = GangAssigner(cluster, AssignmentWriter(cluster, cluster, lambda: True, 60.0), Rules(), reserve_after)
    found = await placer.assign(gang, MEMBERS, {}, (), partial(asyncio.sleep, 0))
    assert isinstance(found, NoAssignment)
    return found


async def test_the_nodes_of_the_domain_are_kept_for_a_group_that_has_waited_so_long() -> None:
    found = await waits(60)
    assert found.reserved_nodes == {"n2", "n3"}
    assert found.text.endswith("; rack rack-2 is kept for it")


@pytest.mark.parametrize(
    ("reserve_after", "created", "members"),
    [
        (0, "2020-01-01T00:00:00Z", MEMBERS),
        (60, "2999-01-01T00:00:00Z", MEMBERS),
        (60, "2020-01-01T00:00:00Z", MEMBERS - 1),
    ],
    ids=["switched off", "too young", "not all there"],
)
async def test_else_nothing_is_kept(reserve_after: float, created: str, members: int) -> None:
    assert (await waits(reserve_after, created, members=members)).reserved_nodes == frozenset()


async def test_whoever_leads_keeps_the_same() -> None:
    assert await waits(60) == await waits(60)


def test_who_comes_later_gets_no_place_there_and_is_told() -> None:
    pod = GatedPod.from_object(gated(name="p"))
    now = snapshot(n0=(2, 2), n5=(2,))
    assignment = find_assignment(now, pod, Rules(), nobody)
    assert isinstance(assignment, Assignment)
    assert assignment.hint.node in {"n2", "n3"}
    found = find_assignment(without(now, {"n2", "n3", "gone"}), pod, Rules(), nobody)
    assert isinstance(found, Decision)
    assert why_unassigned(found, pod, Rules(), 2).text.endswith("; 2 nodes are kept for groups that have waited long")
