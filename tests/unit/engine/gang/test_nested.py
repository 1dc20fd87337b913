"""Gangs within gangs, like KAI-Scheduler's nested PodGroups. No annotation expresses them.

The cases are from its `docs/topology/multilevel.md` and `docs/developer/designs/hierarchical-podgroup` and
`topology-awareness`.
"""

from tests.builders.gangs import group, podset, topology_of, tree_of
from tests.builders.records import node, pod, state
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Constraint, Gang, PodSet
from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import Domain
from webhook.engine.topology.tree_cache import TopologyTrees

ZONE, SPINE, RACK = 1, 2, 3
LABELS = ("example.com/zone", "example.com/spine", "example.com/rack")


def answer(asked: Gang, **room: int) -> GangAssignment:
    """The assignment on racks of one node each. room: zone__spine__rack -> pods that the node takes."""
    nodes = []
    for place, pods in room.items():
        labels = dict(zip(LABELS, place.split("__"), strict=True))
        nodes.append(node(name=place, allocatable={"cpu": 1000 * pods, "memory": 1 << 40, "pods": 110}, labels=labels))
    snapshot = Snapshot(state(*nodes).node_arrays())
    return assign_gang(snapshot, TopologyTrees().tree(topology_of(*LABELS), snapshot.node_arrays), asked)


def workers(name: str, count: int) -> PodSet:
    return podset(name=name, of=pod({"cpu": "1"}), count=count)


def values(found: GangAssignment, level: int, *sets: str) -> set[str]:
    """The domains of a level that these pod sets use."""
    return {"/".join(each.node.split("__")[:level]) for each in found.pods() if each.set in sets}


# All in one zone; a and b in one spine, each in a rack; c in a rack anywhere in the zone.
SAMPLE = group(
    group(
        group(workers("a", 1), constraint=Constraint(RACK), name="a"),
        group(workers("b", 2), constraint=Constraint(RACK), name="b"),
        constraint=Constraint(SPINE),
        name="ab",
    ),
    group(workers("c", 3), constraint=Constraint(RACK), name="c"),
    constraint=Constraint(ZONE),
)


# z1 ─┬─ s1 ─┬─ r1 [1]
#     │      └─ r2 [2]
#     └─ s2 ─── r3 [3]
# z2 ─┬─ s3 ─── r4 [2]         holds c, and either a or b
#     └─ s4 ─── r5 [3]
def test_two_subgroups_share_a_spine_and_have_a_rack_each_and_a_third_is_elsewhere_in_the_zone() -> None:
    room = {"z1__s1__r1": 1, "z1__s1__r2": 2, "z1__s2__r3": 3, "z2__s3__r4": 2, "z2__s4__r5": 3}
    found = answer(SAMPLE, **room)
    assert values(found, ZONE, "a", "b", "c") == {"z1"}
    assert values(found, SPINE, "a", "b") == {"z1/s1"}
    assert [values(found, RACK, each) for each in "abc"] == [{"z1/s1/r1"}, {"z1/s1/r2"}, {"z1/s2/r3"}]


def test_and_none_starts_where_no_spine_holds_the_two() -> None:
    room = {"z1__s1__r1": 2, "z1__s2__r2": 1, "z1__s3__r3": 3}
    assert not answer(SAMPLE, **room).assigned


def test_two_parts_of_leaders_and_workers_have_a_spine_each_and_each_role_a_rack() -> None:
    parts = [
        group(
            group(workers(f"{part}-leaders", 1), constraint=Constraint(RACK), name=f"{part}-leaders"),
            group(workers(f"{part}-workers", 4), constraint=Constraint(RACK), name=f"{part}-workers"),
            constraint=Constraint(SPINE),
            name=part,
        )
        for part in ("decode", "prefill")
    ]
    # z1 ─┬─ s1 ─┬─ r1 [4]
    #     │      └─ r2 [1]
    #     └─ s2 ─── r3 [5]
    found = answer(group(*parts), z1__s1__r1=4, z1__s1__r2=1, z1__s2__r3=5)
    spines = [values(found, SPINE, f"{part}-leaders", f"{part}-workers") for part in ("decode", "prefill")]
    assert sorted(map(list, spines)) == [["z1/s1"], ["z1/s2"]]
    assert all(len(values(found, RACK, f"{part}-workers")) == 1 for part in ("decode", "prefill"))
    assert not answer(group(*parts), z1__s1__r1=4, z1__s1__r2=1, z1__s2__r3=4).assigned


# dc ─┬─ a ─── a1 ── n0        steps from node to node, and from a rack to a node elsewhere
#     ├─ b ─── b1 ── n1
#     └─ c ─── c1 ── n2 n3
def test_distance_is_counted_in_steps_of_the_tree() -> None:
    tree = tree_of([("dc", "a", "a1"), ("dc", "b", "b1"), ("dc", "c", "c1"), ("dc", "c", "c1")], topology_of(*LABELS))
    at = tree.positions()
    first, second = (Domain(tree.node_level, int(at[number])) for number in (2, 3))
    assert tree.distance(first, second) == 2
    rack = Domain(RACK, tree.containing(int(at[1]), RACK))
    assert tree.distance(rack, Domain(tree.node_level, int(at[0]))) == 5
