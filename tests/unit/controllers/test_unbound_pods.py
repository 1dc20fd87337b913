"""Pods that the scheduler has not bound: those left to it say why, and placed ones lose what is reserved for them."""

import json
from typing import Any

import pytest

from tests.builders.pods import gated, pod
from webhook.controllers.unbindable_pods import UnbindablePods
from webhook.controllers.unbound_pods import DelegatedPods, why_not_bound
from webhook.formats.koordinator.numa_allocation import AllocationKey
from webhook.formats.patches.json_patch import apply
from webhook.kube.write import Outcome, Write
from webhook.model.names import NUMA_ALLOCATION, NUMA_SIGNATURE, NUMA_TOPOLOGY_SPEC, PLACEMENT, SCHEDULING_GROUP
from webhook.state.rules import Rules

UNBOUND = "0/{} nodes are available: pod has unbound immediate PersistentVolumeClaims."
VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def left(name: str = "p", message: str = UNBOUND.format(1), **spec: Any) -> dict[str, Any]:
    raw = gated(name=name, schedulingGates=[], **{"volumes": VOLUMES, **spec})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return raw | {"status": {"phase": "Pending", "conditions": [condition]}}


def test_the_schedulers_message_stands_behind_why_the_pod_was_left_to_it() -> None:
    assert why_not_bound(left(), Rules()) == (
        "the scheduler chooses the node, for its volumes; not bound yet: " + UNBOUND.format(1)
    )


def test_of_other_pods_nothing_is_said() -> None:
    assigned = left()
    assigned["metadata"]["annotations"][NUMA_ALLOCATION] = '{"node": "n0", "numaNodeResources": []}'
    going = left()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for raw in (left(volumes=[]), left() | {"status": {}}, assigned, going):
        assert why_not_bound(raw, Rules()) is None


def test_a_placed_pod_that_lost_its_reservation_says_so_and_what_it_waits_for() -> None:
    assigned = left(volumes=[])
    assigned["metadata"]["annotations"][NUMA_ALLOCATION] = '{"node": "n0", "reserved": false}'
    assert why_not_bound(assigned, Rules()) == (
        "placed on n0, where nothing is reserved for it any more; not bound yet: " + UNBOUND.format(1)
    )


def test_a_message_of_any_length_is_cut() -> None:
    assert len(why_not_bound(left(message="x" * 100_000), Rules()) or "") <= 1000


async def test_what_differs_in_numbers_alone_is_told_once_and_the_rest_at_most_every_half_minute() -> None:
    cluster = FakeCluster()
    for now, message in ((0, UNBOUND.format(1)), (1, UNBOUND.format(5)), (2, "another"), (31, "another")):
        cluster.pods = {"default/p": left(message=message)}
        await cluster.delegated.sweep(now)
    assert [text.splitlines()[-1].rpartition(": ")[2] for text in cluster.written] == [
        "pod has unbound immediate PersistentVolumeClaims.",
        "another",
    ]
    assert cluster.told == [("default/p", "WaitingForScheduler")] * 2


async def test_thousands_are_told_some_at_a_time_so_that_none_keeps_the_leader_busy() -> None:
    cluster = FakeCluster()
    cluster.pods = {f"default/p{number}": left(f"p{number}") for number in range(120)}
    await cluster.delegated.sweep(0)
    assert len(cluster.written) == 50


ON_N0 = json.dumps({"node": "n0", "numaNodeResources": [{"node": 0, "resources": {"cpu": "8"}}]})
UNRESERVED = json.dumps({"node": "n0", "reserved": False}, separators=(",", ":"))


def assigned(name: str = "p", reason: str = "Unschedulable", allocation: str = ON_N0, **more: Any) -> dict[str, Any]:
    annotations = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}', NUMA_ALLOCATION: allocation}
    metadata = {"name": name, "uid": name, "resourceVersion": "1", "annotations": annotations, **more.get("also", {})}
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "no volume"}
    return pod(metadata=metadata) | {"status": {"conditions": [condition], **more.get("status", {})}}


class FakeCluster:
    """The pods, and what is written and told of them."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.key = AllocationKey.create()
        self.outcome = Outcome.WRITTEN
        self.tries: list[str] = []
        self.written: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.told_text = ""
        self.leads = True
        self.gates_groups = False
        looking: Any = self
        self.ours = looking
        self.unbindable = UnbindablePods(looking, looking, looking, Rules(), lambda: self.leads, 2)
        self.delegated = DelegatedPods(looking, looking, looking, Rules(), lambda: True)

    def ungated(self) -> dict[str, dict[str, Any]]:
        return self.pods

    def is_gated_as_a_whole(self, membership: object) -> bool:
        return self.gates_groups and membership is not None

    def sign(self, uid: str, allocation: str) -> str:
        return self.key.sign(uid, allocation)

    async def patch(self, key: str, operations: Any) -> Write:
        self.tries.append(key)
        self.written += [one["value"] for one in operations if one["path"].endswith(PLACEMENT.replace("/", "~1"))]
        if self.outcome is Outcome.WRITTEN:
            self.pods[key] = apply(self.pods[key], map(dict, operations))
        return Write(self.outcome)

    def tell(self, event: Any) -> None:
        self.told.append((event.key, event.reason))
        self.told_text = event.note

    async def sweeps(self, *times: float) -> None:
        for now in times:
            await self.unbindable.sweep(now)


async def test_what_is_reserved_goes_back_once_the_second_attempt_is_due_and_the_pod_says_so() -> None:
    cluster = FakeCluster()
    cluster.pods = {"default/p": assigned()}
    await cluster.sweeps(0, 0.5, 1.5)
    assert cluster.tries == []
    cluster.leads = False
    await cluster.sweeps(2, 3)
    assert cluster.tries == [], "only the leader takes anything back"
    cluster.leads = True
    await cluster.sweeps(3, 4, 9)
    assert cluster.tries == ["default/p"]
    annotations = cluster.pods["default/p"]["metadata"]["annotations"]
    assert annotations[NUMA_ALLOCATION] == UNRESERVED
    assert annotations[NUMA_SIGNATURE] == cluster.key.sign("p", UNRESERVED)
    assert annotations[PLACEMENT].splitlines() == [
        "placed on n0, where nothing is reserved for it any more",
        "not bound yet: no volume",
    ]
    assert cluster.told == [("default/p", "WaitingForScheduler")]


@pytest.mark.parametrize(
    "waits",
    [
        assigned(reason="SchedulingGated"),  # before the scheduler's first attempt
        assigned(reason="SchedulerError"),  # its binding was refused, by us for one
        assigned(status={"nominatedNodeName": "n0"}),  # others make room for it
        assigned(status={"conditions": []}),
        assigned(also={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        assigned(allocation=UNRESERVED),
        assigned(allocation="not JSON"),
    ],
)
async def test_who_waits_its_turn_or_has_nothing_keeps_what_it_has(waits: dict[str, Any]) -> None:
    cluster = FakeCluster()
    cluster.pods = {"default/p": waits}
    await cluster.sweeps(0, 3, 600)
    assert cluster.tries == []


async def test_one_that_the_scheduler_may_never_try_without_saying_so_has_time_to_be_tried() -> None:
    cluster = FakeCluster()
    claims: Any = [{"name": "gpu", "resourceClaimName": "none"}]
    tried, untried = assigned("tried", reason="SchedulerError"), assigned("untried", reason="SchedulingGated")
    for raw in (tried, untried):
        raw["spec"]["resourceClaims"] = claims
    cluster.pods = {"default/tried": tried, "default/untried": untried}
    await cluster.sweeps(0, 29)
    assert cluster.tries == []
    await cluster.sweeps(30)
    assert cluster.tries == ["default/untried"]
    assert "one of its resource claims may not exist" in cluster.told_text


async def test_one_that_is_tried_beside_pods_without_room_keeps_it_until_it_has_come_first() -> None:
    cluster = FakeCluster()
    cluster.gates_groups = True
    raw = assigned()
    raw["metadata"]["annotations"][SCHEDULING_GROUP] = "g"
    cluster.pods = {"default/p": raw | {"spec": {**raw["spec"], "schedulingGroup": {"podGroupName": "g"}}}}
    for now, tries in ((0, 0), (29, 0), (30, 1)):
        await cluster.unbindable.sweep(now)
        assert len(cluster.tries) == tries


async def test_an_attempt_that_failed_for_another_reason_in_between_begins_the_time_again() -> None:
    cluster = FakeCluster()
    for now, reason in ((0, "Unschedulable"), (1, "SchedulerError"), (2, "Unschedulable"), (3, "Unschedulable")):
        cluster.pods = {"default/p": assigned(reason=reason)}
        await cluster.sweeps(now)
    assert cluster.tries == []
    await cluster.sweeps(4)
    assert cluster.tries == ["default/p"]


async def test_what_was_not_written_is_tried_again_and_nothing_is_told_before() -> None:
    cluster = FakeCluster()
    cluster.pods = {f"default/{name}": assigned(name) for name in "abc"}
    cluster.outcome = Outcome.UNKNOWN
    await cluster.sweeps(0, 2)
    assert (sorted(cluster.tries), cluster.told) == ([f"default/{name}" for name in "abc"], [])
    cluster.outcome = Outcome.WRITTEN
    await cluster.sweeps(2.5)
    assert len(cluster.tries) == 6
    assert len(cluster.told) == 3


async def test_a_pod_of_an_impossible_shape_costs_the_others_nothing() -> None:
    cluster = FakeCluster()
    cluster.pods = {"default/odd": {**assigned("odd"), "status": {"conditions": "none"}}, "default/p": assigned()}
    await cluster.sweeps(0, 2)
    assert cluster.tries == ["default/p"]
