"""Gangs whose PodGroup a user wrote for KAI-Scheduler, as the leader places them, with parts in several topologies."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.builders.nodes import node
from tests.builders.pod_groups import constraint, pod_group
from tests.builders.pods import bound, gated
from tests.builders.topologies import topology
from tests.builders.workloads import of as chain_of
from tests.builders.workloads import owned, template
from tests.unit.controllers.leader import Leader
from webhook.engine.gang import several_topologies
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.names import DOMAIN, KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, MIN_MEMBER, PLACEMENT, STRATEGY
from webhook.model.options import GangStrategy
from webhook.placing.gang import gang_search
from webhook.placing.gang.gang_agreement import agree
from webhook.placing.gang.gang_search import GangSearch, GatedGang, search_gang
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of
from webhook.state.cluster_cache import ClusterCache
from webhook.state.pod_indexes import KAIPodGroups
from webhook.state.rules import Rules

SUBGROUP = "kai.scheduler/subgroup-name"


def pods(subgroup: str, count: int, **how: Any) -> list[dict[str, Any]]:
    """Gated pods of one CPU. how: what else they have."""
    metadata = {"labels": {SUBGROUP: subgroup}} if subgroup else {}
    given: dict[str, Any] = {"group": "g", "cpu": 1, "numa": None, "metadata": metadata, **how}
    return [gated(name=f"{subgroup or 'p'}-{n}", **given) for n in range(count)]


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
    assert "2 of 3 of subgroup b pods that must start together are there" in leader.text("a-0")
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
    assert "and the PodGroup does not exist. Create it" in leader.text("a-0")
    leader.cache.kai_groups.feed.upsert("default/g", pod_group(rack_of("a", 2)))
    await leader.cycle()
    assert leader.waiting() == set()


KAI_RACK = {"kai.scheduler/topology-required-placement": RACK, "kai.scheduler/topology": "network"}
ROW_LEVEL = {"name": "a", "topologyConstraint": constraint("row")}


@pytest.mark.parametrize(
    ("group", "own", "says"),
    [
        (
            pod_group({"name": "b"}),
            {},
            'metadata.labels[kai.scheduler/subgroup-name]: "a" is no subgroup of PodGroup g.',
        ),
        (pod_group(rack_of("a", -1)), {}, "PodGroup g: spec.subGroups[0].minMember: -1 is not a number of pods."),
        (pod_group(rack_of("a", 1, "x")), {}, "PodGroup g: spec.subGroups[0].parent: There is no subgroup 'x'."),
        (pod_group(ROW_LEVEL), {}, 'subGroups[0].topologyConstraint.requiredTopologyLevel: "row" is no level'),
        (pod_group(rack_of("a", 1)), KAI_RACK, 'required-placement] is "topology/rack", and PodGroup g'),
        (pod_group(rack_of("a", 1)), {MIN_MEMBER: "2"}, 'min-member] is "2", and PodGroup g says "1".'),
        (pod_group(rack_of("a", 1)), {STRATEGY: "spread"}, 'strategy]: "spread" is not a strategy.'),
    ],
    ids=["no such subgroup", "minimum", "parent", "level", "another level", "another minimum", "strategy"],
)
async def test_what_cannot_be_met_waits_with_the_field(group: dict[str, Any], own: dict[str, str], says: str) -> None:
    leader = Leader(*nodes(), group)
    leader.api.has(*pods("a", 1, annotations=own))
    await leader.cycle()
    assert leader.waiting() == {"a-0"}
    assert says in leader.text("a-0")


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


OWN_ZONE, ROW_RACK, ROW = "example.com/zone", "example.com/rack", "example.com/row"

# zone-a ─┬─ rack-1 ── n1 [2] row-x                      [free CPUs]
#         └─ rack-2 ── n2 [4] row-y
# zone-b ─── rack-3 ─┬─ n3 [2] row-x
#                    └─ n4 [2] row-y
ROW_PLACES = {"n1": ("a", "1", "x", 2), "n2": ("a", "2", "y", 4), "n3": ("b", "3", "x", 2), "n4": ("b", "3", "y", 2)}


def nodes_in_rows(**cpus: int) -> list[dict[str, Any]]:
    """The nodes_in_rows above, and both topologies. cpus: of other sizes."""
    return [
        topology(labels=(OWN_ZONE, ROW_RACK), name="racks"),
        topology(labels=(ROW,), name="rows"),
        *(
            node(name=name, cpus=cpus.get(name, own), labels={OWN_ZONE: zone, ROW_RACK: rack, ROW: row})
            for name, (zone, rack, row, own) in ROW_PLACES.items()
        ),
    ]


def part(name: str, minimum: int, level: str, of: str) -> dict[str, Any]:
    return {"name": name, "minMember": minimum, "topologyConstraint": constraint(level, topology=of)}


def at(leader: Leader, name: str) -> set[str]:
    return {where for pod, where in leader.nodes().items() if pod.startswith(f"{name}-")}


async def test_each_part_is_in_one_domain_of_its_topology_and_its_pods_say_so() -> None:
    leader = Leader(*nodes_in_rows(), pod_group(part("a", 4, ROW_RACK, "racks"), part("b", 4, ROW, "rows")))
    leader.api.has(*pods("a", 4), *pods("b", 4))
    await leader.cycle()
    assert leader.waiting() == set()
    # Rack 2 and rack 3 hold part a; beside it in rack 2, row x is the only one that holds part b.
    assert (at(leader, "a"), at(leader, "b")) in [({"n2"}, {"n1", "n3"}), ({"n3", "n4"}, {"n2"})]
    annotations = {name: leader.api.pods[f"default/{name}"]["metadata"]["annotations"] for name in ("a-0", "b-0")}
    assert [annotations[name][KAI_TOPOLOGY] for name in ("a-0", "b-0")] == ["racks", "rows"]
    assert [list(json.loads(annotations[name][DOMAIN])) for name in ("a-0", "b-0")] == [[OWN_ZONE, ROW_RACK], [ROW]]
    assert "8 pods in the cluster (a: rack " in annotations["b-0"][PLACEMENT]
    assert " of topology rows)" in annotations["b-0"][PLACEMENT]


async def test_the_level_of_the_whole_group_binds_parts_in_other_topologies_too() -> None:
    whole = constraint(OWN_ZONE, topology="racks")
    group = pod_group(part("a", 2, ROW_RACK, "racks"), part("b", 2, ROW, "rows"), topologyConstraint=whole)
    leader = Leader(*nodes_in_rows(), group)
    leader.api.has(*pods("a", 2), *pods("b", 2))
    await leader.cycle()
    assert leader.waiting() == set()
    assert len({ROW_PLACES[where][0] for where in leader.nodes().values()}) == 1


async def test_none_is_placed_if_one_part_has_no_room_and_the_text_names_it_with_its_topology() -> None:
    leader = Leader(*nodes_in_rows(), pod_group(part("a", 2, ROW_RACK, "racks"), part("b", 7, ROW, "rows")))
    leader.api.has(*pods("a", 2), *pods("b", 7))
    await leader.cycle()
    assert len(leader.waiting()) == 9
    text = leader.text("a-0")
    assert "part b (topology rows): row y holds 6 of 7 pods: cpu" in text
    assert "not even an empty cluster has a place for it, part b (topology rows): the best row, y," in text


async def test_a_member_that_comes_later_joins_the_domain_of_its_part() -> None:
    leader = Leader(*nodes_in_rows(n1=3), pod_group(part("a", 1, ROW_RACK, "racks"), part("b", 1, ROW, "rows")))
    runs = [
        bound(name=f"{name}-0", node=where, cpu=1, numa=None, group="g", metadata={"labels": {SUBGROUP: name}})
        for name, where in (("a", "n3"), ("b", "n1"))
    ]
    leader.api.has(*runs)
    leader.api.has(*pods("a", 3)[1:], *pods("b", 3)[1:])
    await leader.cycle()
    assert leader.waiting() == set()
    assert at(leader, "a") <= {"n3", "n4"}
    assert at(leader, "b") <= {"n1", "n3"}


async def test_pods_beyond_the_minimum_do_not_stand_in_the_way_of_another_part() -> None:
    # Rack 2 holds four pods of a or row y's four of b on n2: a has two more than it needs.
    leader = Leader(
        *nodes_in_rows(n1=0, n3=0, n4=0), pod_group(part("a", 2, ROW_RACK, "racks"), part("b", 2, ROW, "rows"))
    )
    leader.api.has(*pods("a", 4), *pods("b", 2))
    await leader.cycle()
    assert {"b-0", "b-1"} <= leader.nodes().keys()
    assert len(leader.nodes()) == 4


IN_A_ROW = {KAI_TOPOLOGY: "rows", KAI_REQUIRED_PLACEMENT: "row"}
IN_A_ZONE = {KAI_TOPOLOGY: "racks", KAI_REQUIRED_PLACEMENT: "zone"}


def training() -> list[GatedPod]:
    """A job in one zone, whose workers are to be in one row."""
    replicas = {
        "Master": {"replicas": 1, "template": template(numa=None)},
        "Worker": {"replicas": 2, "template": template(annotations=IN_A_ROW, numa=None)},
    }
    chain = chain_of(owned("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas}, **IN_A_ZONE))
    members = []
    for name in ("master-0", "worker-0", "worker-1"):
        (raw,) = pods("", 1)
        annotations = dict(IN_A_ROW) if name.startswith("worker") else {}
        raw["metadata"] |= {"name": f"w-{name}", "uid": name, "annotations": annotations}
        members.append(GatedPod.from_object(raw, chain))
    return members


def test_the_template_of_a_workload_may_name_another_topology_than_the_workload() -> None:
    (gang,) = units_of(training())
    assert isinstance(gang, GatedGang)
    leader = Leader(*nodes_in_rows(n2=1))
    cluster = leader.cache.snapshot()
    agreed = agree(gang, {}, cluster.topologies)
    assert not agreed.disagreeing
    found = search_gang(agreed.gang, agreed.minimum, {}, cluster, TopologyTrees(), Rules())
    assert isinstance(found, GangSearch)
    where = {pod.name: ROW_PLACES[pod.node] for pod in found.placement.pods()}
    assert len(where) == 3
    assert len({zone for zone, *_ in where.values()}) == 1
    assert len({row for name, (_, _, row, _) in where.items() if "worker" in name}) == 1
    assert [one.tree.topology.name for one in found.placement.by_topology()] == ["racks", "rows"]


async def test_the_search_ends_after_a_fixed_number_of_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight parts of which each fits alone, and no two fit together."""
    kinds = [topology(labels=(f"example.com/l{n}",), name=f"t{n}") for n in range(8)]
    labels = {f"example.com/l{n}": "d" for n in range(8)}
    machines = [node(name=f"n{n}", cpus=2, labels=labels) for n in range(4)]
    group = pod_group(*(part(f"p{n}", 4, f"example.com/l{n}", f"t{n}") for n in range(8)))
    leader = Leader(*kinds, *machines, group)
    leader.api.has(*(pod for n in range(8) for pod in pods(f"p{n}", 4, cpu=2)))
    calls = 0
    place = several_topologies.SeveralTopologies._after

    def counting(self: Any, *how: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        return place(self, *how, **more)

    monkeypatch.setattr(several_topologies.SeveralTopologies, "_after", counting)
    await leader.cycle()
    assert len(leader.waiting()) == 32
    assert 0 < calls <= 2 * several_topologies.TRIES
