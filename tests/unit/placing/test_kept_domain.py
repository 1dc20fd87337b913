"""The domain that is kept for a gang that has waited long: which, from whom, and whatever happens to it meanwhile."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from time import time
from typing import Any

import pytest

from tests.builders.clusters import assuming, cluster_cache, machine, put
from tests.builders.gangs import TOPOLOGY
from tests.builders.pods import bound, gated
from tests.builders.topologies import topology
from tests.unit.controllers.leader import Leader
from tests.unit.controllers.placement.peers import nobody
from tests.unit.engine.gang.reserved import snapshot
from webhook.engine.decide import Decision
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.kube.write import Outcome, Write
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, MIN_MEMBER, NUMA_ALLOCATION
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gated_gang import ExactAllocations, GangAssigner
from webhook.placing.gang.kept_domain import KeptDomains
from webhook.placing.planner import Cycle
from webhook.placing.pod.assignment import Assignment, NoAssignment, find_assignment, why_unassigned, without
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import Unit, units_of
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules

LONG_AGO = {"creationTimestamp": "2020-01-01T00:00:00Z"}
IN_RACK_0 = {"example.com/zone": "z", "example.com/rack": "rack-0"}


def leader_of_a_rack(*free: int) -> Leader:
    """Of one rack with a group of two members that has waited long."""
    levels = topology(name=TOPOLOGY.name, labels=("example.com/zone", "example.com/rack"))
    leader = Leader(levels, *machine(name="n0", free=free, labels=IN_RACK_0), reserve_after=60)
    asks = {KAI_TOPOLOGY: TOPOLOGY.name, KAI_REQUIRED_PLACEMENT: "rack", MIN_MEMBER: "2"}
    members = [gated(name=f"w-{number}", group="g", annotations=asks, metadata=LONG_AGO) for number in range(2)]
    leader.api.has(*members)
    return leader


async def kept(*free: int) -> tuple[Leader, list[str]]:
    """The same, once the rack is kept; and what the group is told after that."""
    leader = leader_of_a_rack(*free)
    told: list[str] = []
    leader.controller.gang_examined.subscribe(lambda gang, why: told.append(why))
    await leader.cycle()
    assert "rack-0 is reserved for it" in told.pop()
    return leader, told


async def breaks(*_: object, **__: object) -> None:
    raise RuntimeError("a fault of ours")


async def test_nodes_on_which_the_group_can_never_run_are_not_kept_for_it() -> None:
    # rack-0 ── n0 [8 0]  n1 [8 8]      [free cpus]; the group may only go to n0
    leader = leader_of_a_rack(8, 0)
    only = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0"]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}}
    for key, raw in list(leader.api.pods.items()):
        leader.api.pods[key] = {**raw, "spec": {**raw["spec"], "affinity": {"nodeAffinity": terms}}}
    leader.api.show()
    put(leader.cache, *machine(name="n1", free=(8, 8), labels=IN_RACK_0))
    leader.api.has(gated(name="later"), gated(name="last", second=1))
    await leader.cycle()
    assert leader.waiting() == {"w-0", "w-1"}
    assert set(leader.nodes().values()) == {"n1"}


async def test_it_is_kept_if_the_exact_amounts_of_a_member_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    # rack-0 ── n0 [8 8]      [free cpus]
    leader = leader_of_a_rack(8, 8)
    monkeypatch.setattr(ExactAllocations, "of", lambda *_: None)
    leader.api.has(gated(name="later"))
    await leader.cycle()
    assert leader.waiting() == {"w-0", "w-1", "later"}


async def test_it_stays_kept_in_a_cycle_in_which_a_member_changes_before_the_group_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # rack-0 ── n0 [8 0]      [free cpus]; the group needs both NUMA nodes
    leader, told = await kept(8, 0)
    collected = leader.controller.planner.lacking_room.collected

    def changes_a_member(units: Sequence[Unit], now: float) -> None:
        put(leader.cache, {**leader.api.pods["default/w-1"]})
        collected(units, now)

    monkeypatch.setattr(leader.controller.planner.lacking_room, "collected", changes_a_member)
    leader.api.has(gated(name="later"))
    await leader.cycle()
    assert not told, "it was not tried"
    assert leader.waiting() == {"w-0", "w-1", "later"}


@pytest.mark.parametrize("before", [False, True], ids=["in that cycle", "while it waits to be tried again"])
async def test_it_stays_kept_when_an_internal_error_hits_the_group(
    monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    # rack-0 ── n0 [8 0]      [free cpus]; the group needs both NUMA nodes
    leader, _ = await kept(8, 0)
    with monkeypatch.context() as broken:
        broken.setattr(GangAssigner, "assign", breaks)
        if before:
            leader.controller._changed()
            await leader.cycle()
        else:
            leader.api.has(gated(name="later"))
            await leader.cycle()
    if before:
        leader.api.has(gated(name="later"))
        await leader.cycle()
    assert leader.waiting() == {"w-0", "w-1", "later"}


@pytest.mark.parametrize("refused", [{"w-0", "w-1"}, {"w-1"}], ids=["of the group", "of one member"])
async def test_it_stays_kept_after_the_api_server_refused_the_placement(refused: set[str]) -> None:
    leader, _ = await kept(8, 0)
    put(leader.cache, *machine(name="n0", free=(8, 8), labels=IN_RACK_0))
    patch = leader.api.patch

    async def refuses(key: str, operations: Any) -> Write:
        return Write(Outcome.REFUSED) if key.partition("/")[2] in refused else await patch(key, operations)

    leader.api.patch = refuses  # type: ignore[method-assign]
    await leader.cycle()
    assert leader.waiting() == refused
    leader.api.patch = patch  # type: ignore[method-assign]
    leader.api.has(gated(name="later"))
    await leader.cycle()
    assert leader.waiting() == {*refused, "later"}


# The cluster of test_soonest: of its racks rack-2 (n2, n3) holds most of a group that needs whole NUMA nodes.
MEMBERS = 3


class SteadyCluster:
    """Nothing changes in it, and nobody has a place."""

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(snapshot(), {TOPOLOGY.name: TOPOLOGY})

    def assigned_members(self, group: str) -> Mapping[str, AssignedMember]:
        del group
        return {}

    def pods_on(self, node: str) -> tuple[()]:
        del node
        return ()

    def chosen_node(self, node: str, pod: str) -> Snapshot | None:
        raise AssertionError((node, pod))

    def assume(self, assumed_pod: AssumedPod) -> None:
        raise AssertionError(assumed_pod)

    def forget(self, assumed_pod: AssumedPod) -> None:
        raise AssertionError(assumed_pod)


def member(name: str, created: str, cpu: int = 8, *, namespace: str = "default", group: str = "g") -> GatedPod:
    raw = gated(name=name, namespace=namespace, group=group, cpu=cpu)
    raw["metadata"]["creationTimestamp"] = created
    raw["metadata"]["annotations"] |= {KAI_TOPOLOGY: TOPOLOGY.name, KAI_REQUIRED_PLACEMENT: "rack"}
    return GatedPod.from_object(raw)


def holder(name: str, node: str, restarts: str, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A pod that holds the first NUMA node of a node."""
    amounts = {"cpu": "16", "memory": str(1 << 30)}
    allocation = json.dumps({"node": node, "numaNodeResources": [{"node": 0, "resources": amounts}]})
    annotations = {NUMA_ALLOCATION: allocation}
    return bound(node=node, name=name, cpu=16, annotations=annotations, metadata=metadata, restartPolicy=restarts)


def gang_of(namespace: str, group: str) -> GatedGang:
    (gang,) = units_of([member("w", "2020-01-01T00:00:00Z", namespace=namespace, group=group)])
    assert isinstance(gang, GatedGang)
    return gang


async def waits(
    reserve_after: float,
    created: str = "2020-01-01T00:00:00Z",
    *,
    members: int = MEMBERS,
    minimum: int = MEMBERS,
    cpu: int = 8,
    may_reserve: bool = True,
    cluster: Any = None,
    wake_in: Callable[[float], object] = float,
) -> NoAssignment:
    """Why a group has no place."""
    pods = [member(f"w-{number}", created, cpu) for number in range(members)]
    (gang,) = units_of(pods)
    assert isinstance(gang, GatedGang)
    cluster = cluster or SteadyCluster()
    placer = GangAssigner(
        cluster, assuming(cluster), Rules(), KeptDomains(cluster, reserve_after, wake_in, lambda: 1000.0, time)
    )
    found = await placer.assign(gang, minimum, {}, (), partial(asyncio.sleep, 0), may_reserve=may_reserve)
    assert isinstance(found, NoAssignment)
    return found


async def test_the_nodes_of_the_domain_are_kept_for_a_group_that_has_waited_so_long() -> None:
    found = await waits(60)
    assert found.reserved_nodes == {"n2", "n3"}
    assert found.text.endswith("; rack rack-2 is reserved for it")


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


async def test_of_a_namespace_one_group_has_a_domain_kept_and_the_others_are_told() -> None:
    found = await waits(60, may_reserve=False)
    assert found.reserved_nodes == frozenset()
    assert found.text.endswith("; a domain is reserved for another gang of its namespace first")


def test_of_two_groups_of_a_namespace_the_first_has_its_domain_kept_and_one_of_another_namespace_too() -> None:
    cycle = Cycle(0, 0)
    first, second, other = (gang_of(namespace, name) for namespace, name in (("a", "1"), ("a", "2"), ("b", "1")))
    for gang, node in ((first, "n0"), (second, "n1"), (other, "n2"), (first, "n3")):
        cycle.reserve(gang, [node])
    assert cycle.reserved_nodes == {"n0", "n2", "n3"}
    assert [cycle.may_reserve(gang) for gang in (first, second, other)] == [True, False, True]


async def test_a_group_is_tried_again_when_it_has_waited_long_enough_and_once_for_those_of_one_second() -> None:
    woken: list[float] = []
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = await waits(3600, created, wake_in=woken.append)
    assert found.reserved_nodes == frozenset()
    assert [3590 < seconds <= 3601 for seconds in woken] == [True]
    await waits(60, wake_in=woken.append)
    assert len(woken) == 1


async def test_a_domain_comes_first_if_it_has_room_beside_pods_that_end_only_when_somebody_deletes_them() -> None:
    # rack-0 ── n0 [16 16]   rack-1 ── n1 [16 16], all in use; the group needs both NUMA nodes of one
    labels = [{"example.com/zone": "z", "example.com/rack": f"rack-{number}"} for number in range(2)]
    nodes = (raw for number in range(2) for raw in machine(name=f"n{number}", free=(0, 0), labels=labels[number]))
    levels = topology(name=TOPOLOGY.name, labels=("example.com/zone", "example.com/rack"))
    cache = cluster_cache(levels, *nodes, holder("job", "n0", "Never"), holder("other-job", "n1", "OnFailure"))

    async def kept() -> NoAssignment:
        return await waits(60, members=2, minimum=2, cpu=16, cluster=cache)

    assert (await kept()).reserved_nodes == {"n0"}
    put(cache, holder("service", "n0", "Always"))
    assert (await kept()).reserved_nodes == {"n1"}
    put(cache, holder("service-too", "n1", "Always"))
    assert (await kept()).reserved_nodes == {"n0"}
    # It ends now: it was deleted.
    put(cache, holder("service-too", "n1", "Always", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"}))
    assert (await kept()).reserved_nodes == {"n1"}


async def test_whoever_leads_keeps_the_same() -> None:
    assert await waits(60) == await waits(60)


def test_who_comes_later_gets_no_place_there_and_is_told() -> None:
    pod = GatedPod.from_object(gated(name="p"))
    now = snapshot(n0=(2, 2), n5=(2,))
    assignment = find_assignment(now, pod, Rules(), nobody)
    assert isinstance(assignment, Assignment)
    assert assignment.allocation.node in {"n2", "n3"}
    found = find_assignment(without(now, {"n2", "n3", "gone"}), pod, Rules(), nobody)
    assert isinstance(found, Decision)
    assert why_unassigned(found, pod, Rules(), 2).text.endswith(
        "; 2 nodes are reserved for gangs that have waited long"
    )
