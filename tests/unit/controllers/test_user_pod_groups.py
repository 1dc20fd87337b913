"""Gangs whose PodGroup a user wrote for KAI-Scheduler: the leader places them by it, with the examples of KAI's docs.

The examples are those of KAI-Scheduler's docs/topology (README.md, multilevel.md), in manifests of our own.
"""

from collections import Counter
from typing import Any

import pytest

from tests.builders.nodes import node
from tests.builders.pod_groups import constraint, pod_group
from tests.builders.pods import bound, gated
from tests.builders.topologies import topology
from tests.unit.controllers.leader import Leader
from tests.unit.controllers.subgroups import SUBGROUP, pods, said
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.model.names import PLACEMENT, STRATEGY
from webhook.model.options import GangStrategy
from webhook.placing.gang import gang_search
from webhook.state.cluster_cache import ClusterCache
from webhook.state.pod_indexes import KAIPodGroups

ZONE, SPINE, RACK = LABELS = ("topology/zone", "topology/spine", "topology/rack")

# zone-a ─┬─ spine-1 ─┬─ rack-1 ── a1 [2]                [free CPUs]
#         │           └─ rack-2 ── a2 [3]
#         └─ spine-2 ─── rack-3 ── a3 [3]
# zone-b ─── spine-3 ─┬─ rack-4 ── b4 [4]
#                     └─ rack-5 ── b5 [1]
PLACES = {
    "a1": ("a", "1", "1", 2),
    "a2": ("a", "1", "2", 3),
    "a3": ("a", "2", "3", 3),
    "b4": ("b", "3", "4", 4),
    "b5": ("b", "3", "5", 1),
}


def nodes(**cpus: int) -> list[dict[str, Any]]:
    """The nodes above. cpus: of other sizes."""
    return [
        topology(labels=LABELS),
        *(
            node(name=name, cpus=cpus.get(name, own), labels=dict(zip(LABELS, place, strict=True)))
            for name, (*place, own) in PLACES.items()
        ),
    ]


def of(leader: Leader, *names: str) -> set[str]:
    """The nodes of the pods of these subgroups."""
    return {at for name, at in leader.nodes().items() if name.rpartition("-")[0] in names}


def rack_of(subgroup: str, minimum: int, parent: str = "") -> dict[str, Any]:
    above = {"parent": parent} if parent else {}
    return {"name": subgroup, "minMember": minimum, "topologyConstraint": constraint(RACK), **above}


ALL: dict[str, Any] = {"minSubGroup": 2}
"""The minimum of subgroups that both examples name now: all of them, as without it."""


@pytest.mark.parametrize("minimum", [{}, ALL])
async def test_subgroups_with_a_rack_each_may_be_in_different_racks(minimum: dict[str, Any]) -> None:
    """KAI's first example: two subgroups, each in one rack."""
    group = pod_group(rack_of("subgroup-a", 2), rack_of("subgroup-b", 3), **minimum)
    leader = Leader(*nodes(), group)
    leader.api.has(*pods("subgroup-a", 2), *pods("subgroup-b", 3))
    await leader.cycle()
    assert leader.waiting() == set()
    assert len(of(leader, "subgroup-a")) == len(of(leader, "subgroup-b")) == 1


@pytest.mark.parametrize("minimum", [{}, ALL])
async def test_nested_subgroups_share_a_spine_within_the_zone_of_all(minimum: dict[str, Any]) -> None:
    """KAI's second example: a and b in one spine, each in one rack, c in any rack, and all of them in one zone."""
    shared = {"name": "subgroup-ab", "topologyConstraint": constraint(SPINE), **minimum}
    group = pod_group(
        shared,
        rack_of("subgroup-a", 1, "subgroup-ab"),
        rack_of("subgroup-b", 2, "subgroup-ab"),
        rack_of("subgroup-c", 3),
        topologyConstraint=constraint(ZONE),
        **minimum,
    )
    # Spine 3 holds a, b and 2 further pods. So does zone b, and the gang fits in zone a only: c in rack 3 or 2.
    leader = Leader(*nodes(), group)
    leader.api.has(*pods("subgroup-a", 1), *pods("subgroup-b", 2), *pods("subgroup-c", 3))
    await leader.cycle()
    assert leader.waiting() == set()
    assert of(leader, "subgroup-a", "subgroup-b") <= {"a1", "a2"} or of(leader, "subgroup-a", "subgroup-b") == {"a3"}
    assert len(of(leader, "subgroup-b")) == len(of(leader, "subgroup-c")) == 1
    assert {at[0] for at in leader.nodes().values()} == {"a"}


async def test_without_subgroups_the_constraint_binds_all_and_a_preferred_level_keeps_few_racks() -> None:
    """The example of KAI's README: 3 tasks, a zone required, a rack preferred; zone A has racks of 2, 1, 1, 1 GPUs."""
    group = pod_group(minMember=3, topologyConstraint=constraint(ZONE, RACK))
    places = {"a1": ("a", "1"), "a2": ("a", "1"), "a3": ("a", "2"), "a4": ("a", "3"), "a5": ("a", "4")}
    places |= {f"b{n}": ("b", f"b{n // 2}") for n in range(6)}
    labels = {name: dict(zip((ZONE, RACK), place, strict=True)) for name, place in places.items()}
    cluster = [node(name=name, cpus=1, labels=own) for name, own in labels.items()]
    leader = Leader(topology(labels=(ZONE, RACK)), *cluster, group)
    leader.api.has(*pods("", 3))
    await leader.cycle()
    racks = Counter(places[at] for at in leader.nodes().values())
    assert sorted(racks.values()) == [1, 2]
    assert {zone for zone, _ in racks} == {"a"}


async def test_no_subgroup_starts_before_each_has_its_minimum() -> None:
    leader = Leader(*nodes(), pod_group(rack_of("a", 1), rack_of("b", 3)))
    leader.api.has(*pods("a", 4), *pods("b", 2))
    await leader.cycle()
    assert len(leader.waiting()) == 6
    assert "2 of 3 of subgroup b pods that must start together are there" in said(leader, "a-0")
    leader.api.has(*pods("b", 3))
    await leader.cycle()
    assert leader.waiting() == set()


async def test_nor_where_one_of_them_has_no_room_and_extra_pods_of_another_do_not_count_for_it() -> None:
    leader = Leader(*nodes(b4=1), pod_group(rack_of("a", 1), rack_of("b", 4)))
    leader.api.has(*pods("a", 4), *pods("b", 4))
    await leader.cycle()
    assert len(leader.waiting()) == 8
    leader = Leader(*nodes(), pod_group(rack_of("a", 1), rack_of("b", 4)))
    leader.api.has(*pods("a", 6), *pods("b", 4))
    await leader.cycle()
    assert of(leader, "b") == {"b4"}
    assert len(of(leader, "a")) == 1
    assert 1 <= sum(name.startswith("a-") for name in leader.nodes()) <= 3


async def test_equal_subgroups_without_levels_keep_their_own_minimums() -> None:
    """The cluster has room for 13 pods, and a alone has 12: b still gets its minimum."""
    leader = Leader(*nodes(), pod_group({"name": "a", "minMember": 1}, {"name": "b", "minMember": 3}))
    leader.api.has(*pods("a", 12), *pods("b", 3))
    await leader.cycle()
    assert sum(name.startswith("b-") for name in leader.nodes()) == 3
    assert len(leader.nodes()) == 13


async def test_a_later_member_joins_the_domains_of_its_subgroup_and_of_those_around_it() -> None:
    pair = {"name": "pair", "topologyConstraint": constraint(SPINE)}
    group = pod_group(pair, rack_of("a", 1, "pair"), {"name": "b", "parent": "pair", "minMember": 1})
    running = bound(name="a-0", node="a1", group="g", cpu=1, numa=None, metadata={"labels": {SUBGROUP: "a"}})
    leader = Leader(*nodes(), group)
    leader.api.has(running, *pods("b", 4))
    await leader.cycle()
    assert of(leader, "b") == {"a1", "a2"}  # spine 1 has room for four beside a-0
    leader.api.has(*pods("a", 2)[1:])
    await leader.cycle()
    assert leader.waiting() == {"a-1"}  # rack 1 is full now


async def test_a_change_of_the_pod_group_counts_at_once_and_its_deletion_leaves_the_pods_waiting() -> None:
    leader = Leader(*nodes(), pod_group(rack_of("a", 9)))
    leader.api.has(*pods("a", 2))
    await leader.cycle()
    assert len(leader.waiting()) == 2
    leader.cache.kai_groups.feed.delete("default/g")
    await leader.cycle()
    assert "and the PodGroup does not exist. Create it" in said(leader, "a-0")
    leader.cache.kai_groups.feed.upsert("default/g", pod_group(rack_of("a", 2)))
    await leader.cycle()
    assert leader.waiting() == set()


@pytest.mark.parametrize(
    ("group", "how", "says"),
    [
        (
            pod_group({"name": "b"}),
            {},
            'metadata.labels[kai.scheduler/subgroup-name]: "a" is no subgroup of PodGroup g.',
        ),
        (pod_group(rack_of("a", -1)), {}, "PodGroup g: spec.subGroups[0].minMember: -1 is not a number of pods."),
        (pod_group(rack_of("a", 1, "x")), {}, "PodGroup g: spec.subGroups[0].parent: There is no subgroup 'x'."),
        (
            pod_group({"name": "a", "topologyConstraint": constraint("row")}),
            {},
            'PodGroup g: spec.subGroups[0].topologyConstraint.requiredTopologyLevel: "row" is no level',
        ),
        (
            pod_group(rack_of("a", 1)),
            {"annotations": {"kai.scheduler/topology-required-placement": RACK, "kai.scheduler/topology": "network"}},
            'metadata.annotations[kai.scheduler/topology-required-placement] is "topology/rack", and PodGroup g',
        ),
        (
            pod_group(rack_of("a", 1)),
            {"annotations": {"topology-webhook.dev/min-member": "2"}},
            'metadata.annotations[topology-webhook.dev/min-member] is "2", and PodGroup g says "1".',
        ),
    ],
)
async def test_what_cannot_be_met_waits_with_the_field(group: dict[str, Any], how: dict[str, Any], says: str) -> None:
    leader = Leader(*nodes(), group)
    leader.api.has(*pods("a", 1, **how))
    await leader.cycle()
    assert leader.waiting() == {"a-0"}
    assert says in said(leader, "a-0")


async def test_annotations_that_say_the_same_are_no_contradiction() -> None:
    leader = Leader(*nodes(), pod_group(minMember=2, topologyConstraint=constraint(RACK)))
    same = {"kai.scheduler/topology": "network", "topology-webhook.dev/min-member": "2"}
    leader.api.has(*pods("", 2, annotations={**same, "kai.scheduler/topology-required-placement": RACK}))
    await leader.cycle()
    assert leader.waiting() == set()


@pytest.mark.parametrize(("strategy", "at"), [("", {"b5"}), ("BinPack", {"b5"}), ("Spread", {"b4"})])
async def test_the_strategy_of_the_pods_counts(strategy: str, at: set[str]) -> None:
    leader = Leader(*nodes(), pod_group(rack_of("a", 1)))
    leader.api.has(*pods("a", 1, annotations={STRATEGY: strategy} if strategy else {}))
    await leader.cycle()
    assert of(leader, "a") == at


async def test_a_strategy_that_does_not_exist_waits() -> None:
    leader = Leader(*nodes(), pod_group(rack_of("a", 1)))
    leader.api.has(*pods("a", 1, annotations={STRATEGY: "spread"}))
    await leader.cycle()
    assert 'metadata.annotations[topology-webhook.dev/strategy]: "spread" is not a strategy.' in said(leader, "a-0")


async def test_ours_do_not_define_a_gang() -> None:
    ours = pod_group(minMember=9)
    ours["metadata"]["annotations"] = {PLACEMENT: "no pods"}
    leader = Leader(*nodes(), ours)
    leader.api.has(*pods("", 1))
    await leader.cycle()
    assert leader.waiting() == set()
    assert leader.cache.kai_groups.by_key() == {}


def test_only_what_a_pod_group_requests_wakes_the_leader() -> None:
    cache, woken = ClusterCache(), []
    cache.changed.subscribe(lambda: woken.append(1))
    feed = cache.kai_groups.feed
    feed.upsert("default/g", pod_group(minMember=2))
    feed.upsert("default/g", {**pod_group(minMember=2), "status": {"phase": "Running"}})
    assert len(woken) == 1
    feed.upsert("default/g", pod_group(minMember=3))
    feed.delete("default/g")
    assert len(woken) == 3


async def test_a_new_gang_waits_a_moment_for_the_pod_group_that_it_names() -> None:
    now = 100.0
    leader = Leader(*nodes())
    leader.cache.kai_groups = KAIPodGroups(lambda: now)
    leader.cache.kai_groups.changed.subscribe(leader.cache.changed.emit)
    leader.cache.kai_groups.serve("v2alpha2")
    leader.api.has(*pods("", 1))
    await leader.cycle()
    assert leader.waiting() == {"p-0"}
    now += 1.0
    woken = []
    leader.cache.changed.subscribe(lambda: woken.append(1))
    leader.cache.advance()
    leader.cache.advance()
    assert woken == [1]
    await leader.cycle()
    assert leader.waiting() == set()


async def test_a_gang_without_sets_to_turn_around_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Gang] = []

    def counting(snapshot: Snapshot, tree: TopologyTree, gang: Gang, strategy: GangStrategy) -> GangAssignment:
        searched.append(gang)
        return assign_gang(snapshot, tree, gang, strategy)

    monkeypatch.setattr(gang_search, "assign_gang", counting)
    leader = Leader(*nodes(), pod_group(rack_of("a", 5)))
    leader.api.has(*pods("a", 6))
    await leader.cycle()
    assert len(leader.waiting()) == 6
    assert len(searched) == 1
    leader.api.has(*pods("a", 3), gated(name="a-x", group="g", cpu=2, numa=None, metadata={"labels": {SUBGROUP: "a"}}))
    await leader.cycle()
    assert [[len(one.members) for one in gang.all_sets()] for gang in searched[1:]] == [[1, 6], [6, 1]]
