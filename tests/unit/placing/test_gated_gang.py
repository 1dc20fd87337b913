"""What the members of a gang get on their nodes, and what a waiting gang is told about whether it can ever fit."""

import asyncio
from functools import partial
from time import monotonic, time
from typing import Any

import pytest

from tests.builders.clusters import assuming
from tests.builders.gangs import GPU, RACK, TOPOLOGY, gpus, group, podset, racks, whole_nodes
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from tests.builders.records import GI, resident, state, tell
from tests.builders.records import node as node_record
from tests.builders.records import topology as topology_record
from tests.unit.controllers.leader import Leader
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Constraint, Gang
from webhook.engine.gang.resolvable import assign_when_empty
from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.single_node import NodeAlone, node_for
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.model.names import MIN_MEMBER, NUMA_ALLOCATION
from webhook.model.options import GangStrategy
from webhook.model.policy import NUMAPolicy
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gated_gang import GangAssigner, GangSchedulability
from webhook.placing.gang.kept_domain import KeptDomains
from webhook.placing.pod.equal_pods import NodeDecisions
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules


# n0 to n3 ── NUMA 0 [16]  NUMA 1 [16]      [free cpus]: six members on each
def _leader(count: int, **spec: Any) -> Leader:
    names = [f"n{number}" for number in range(4)]
    nodes = (node(name=name, cpus=32, labels={"pool": name}) for name in names)
    leader = Leader(*nodes, *(nrt(node=name, free=(16, 16)) for name in names))
    members = [gated(name=f"g-{number:02}", cpu=5, group="g", **spec) for number in range(count)]
    for raw in members:
        raw["metadata"]["annotations"][MIN_MEMBER] = str(count)
    leader.api.has(*members)
    return leader


def _allocations(leader: Leader) -> list[tuple[str, int]]:
    """(node, NUMA node) of each pod."""
    allocations = [
        NUMAAllocation.parse(raw["metadata"]["annotations"][NUMA_ALLOCATION]) for raw in leader.api.pods.values()
    ]
    return sorted((allocation.node, allocation.numa_nodes[0][0]) for allocation in allocations)


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The members for which a decision is made."""
    names: list[str] = []
    decide = NodeDecisions._decided

    def noted(self: NodeDecisions, gated: Any, *others: Any) -> Any:
        names.append(gated.pod.name)
        return decide(self, gated, *others)

    monkeypatch.setattr(NodeDecisions, "_decided", noted)
    return names


async def test_equal_members_on_equal_nodes_are_decided_once(decided: list[str]) -> None:
    leader = _leader(24)
    await leader.cycle()
    assert _allocations(leader) == [(f"n{number}", numa_id) for number in range(4) for numa_id in (0, 0, 0, 1, 1, 1)]
    assert len(decided) == 6


async def test_the_node_counts_for_members_that_select_nodes(decided: list[str]) -> None:
    leader = _leader(18, nodeSelector={"of": "some"})
    await leader.cycle()
    assert not decided
    for number in range(3):
        leader.cache.nodes.upsert(f"n{number}", node(name=f"n{number}", cpus=32, labels={"of": "some"}))
    await leader.cycle()
    assert {at for at, _ in _allocations(leader)} == {"n0", "n1", "n2"}
    assert len(decided) == 18


# zone-a ── rack-1 ── n0 [4]  n1 [4]        [GPUs]
PLACES = racks(n0="zone-a/rack-1", n1="zone-a/rack-1")


def gang_of(count: int) -> Gang:
    return group(podset(name="w", of=gpus(), count=count), constraint=Constraint(RACK))


class WaitingGangs:
    """A cluster whose groups wait; `asked` counts the placements on the empty one."""

    def __init__(self) -> None:
        self.cluster = whole_nodes(places=PLACES, free={name: {GPU: 4} for name in PLACES})
        self.trees = TopologyTrees()
        self.schedulability = GangSchedulability(GangStrategy.BIN_PACK, self.assign)
        self.asked = 0

    def assign(self, *asked: Any) -> GangAssignment:
        self.asked += 1
        return assign_when_empty(*asked)

    def text(self, asked: Gang) -> str:
        snapshot = Snapshot(self.cluster.node_arrays())
        placement = assign_gang(snapshot, self.trees.tree(TOPOLOGY, snapshot.node_arrays), asked)
        assert not placement.assigned
        return self.schedulability.text("g", placement, asked, None)


@pytest.fixture
def site() -> WaitingGangs:
    return WaitingGangs()


def test_a_group_that_is_too_large_is_told_what_it_needs_and_one_that_waits_for_others_nothing(
    site: WaitingGangs,
) -> None:
    assert site.text(gang_of(9)) == (
        "not even an empty cluster has a place for it: the best rack, rack-1, would hold 8 of 9 pods; "
        f"needed: at least 1 more {GPU} there"
    )
    tell(site.cluster, resident(name="other", node="n0", requests={GPU: 4}))
    assert site.text(gang_of(8)) == ""


def test_pods_that_come_and_go_do_not_have_it_worked_out_again(site: WaitingGangs) -> None:
    first = site.text(gang_of(9))
    tell(site.cluster, resident(name="other", node="n0", requests={GPU: 4}))
    assert site.text(gang_of(9)) == first
    assert site.asked == 1


def test_a_node_that_comes_or_grows_and_a_group_that_changes_do(site: WaitingGangs) -> None:
    site.text(gang_of(9))
    site.text(gang_of(10))
    assert site.asked == 2
    labels = {"example.com/zone": "zone-a", "example.com/rack": "rack-1"}
    for name, gpus_of in (("n0", 5), ("n2", 0)):
        allocatable = {"cpu": 10**6, "memory": 1 << 40, "pods": 110, GPU: gpus_of}
        tell(site.cluster, node_record(name=name, allocatable=allocatable, labels=labels))
        assert "would hold 9 of 10 pods" in site.text(gang_of(10))
    assert site.asked == 4


def test_of_groups_that_wait_no_more_nothing_is_kept(site: WaitingGangs) -> None:
    site.text(gang_of(9))
    site.schedulability.keep({"g"})
    site.text(gang_of(9))
    assert site.asked == 1
    site.schedulability.keep(())
    site.text(gang_of(9))
    assert site.asked == 2


# n0: NUMA 0 with 8 cpus and 4Gi, NUMA 1 with 4 cpus and 12Gi; no kubelet aligns there.
NODE = state(
    node_record(name="n0", allocatable={"cpu": 16_000, "memory": 128 * GI, "pods": 9}),
    topology_record(
        node="n0",
        free=[{"cpu": 8000, "memory": 4 * GI}, {"cpu": 4000, "memory": 12 * GI}],
        capacity={"cpu": 8000, "memory": 64 * GI},
        policy=NUMAPolicy.NONE,
    ),
)


class OneNode:
    """The node, and what is assumed on it."""

    def __init__(self) -> None:
        self._node_arrays, self._ledger = NODE.node_arrays(), Ledger()

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(Snapshot(self._node_arrays, self._ledger), {})

    def node_for(self, name: str, pod: str) -> tuple[NodeAlone, NodeSums] | None:
        return node_for(self._node_arrays, self._ledger, name, pod)

    def assume(self, pod: AssumedPod) -> None:
        self._ledger.put(Reservation.of(pod.pod, pod.node, pod.numa, pod.requests, policy=pod.policy))


def member(name: str, cpu: str, memory: str) -> GatedPod:
    return GatedPod.from_object(gated(name=name, group="g", cpu=cpu, memory=memory))


async def test_a_small_member_leaves_the_numa_node_that_only_suits_another() -> None:
    (gang,) = units_of([member("first", "4", "1Gi"), member("second", "2", "10Gi")])
    assert isinstance(gang, GatedGang)
    cluster: Any = OneNode()
    placer = GangAssigner(cluster, assuming(cluster), Rules(), KeptDomains(cluster, 0, float, monotonic, time))
    found = await placer.assign(gang, 2, {}, (), partial(asyncio.sleep, 0))
    assert isinstance(found, list), found
    places = {one.pod.name: [numa for numa, _ in assignment.allocation.numa_nodes] for one, assignment, _ in found}
    assert places == {"first": [0], "second": [1]}
