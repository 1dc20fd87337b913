"""Gangs with parts in two topologies, compared with an exhaustive search over small clusters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.gangs import podset
from tests.builders.records import node, pod, state, topology
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Constraint, Gang, OtherTopology
from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.topology import Level, Topology, TopologySource

RACKS = Topology("racks", TopologySource.KAI, (Level("example.com/zone"), Level("example.com/rack")))
ROWS = Topology("rows", TopologySource.KAI, (Level("example.com/row"),))
ZONE, RACK, ROW = 1, 2, 1


@dataclass(frozen=True)
class Machine:
    """A node with two NUMA nodes."""

    name: str
    zone: str
    rack: str
    row: str
    free: tuple[int, int]
    """Free CPUs of each NUMA node."""


@dataclass(frozen=True)
class GangPart:
    """Equal pods of one part."""

    pods: int
    cpus: int
    bound: bool
    """Whether it requires a rack, or a row."""


machines = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("rs"), st.sampled_from("xy"), st.tuples(*[st.integers(0, 4)] * 2)),
    min_size=2,
    max_size=4,
).map(lambda drawn: [Machine(f"n{index}", *each) for index, each in enumerate(drawn)])
parts = st.builds(GangPart, st.integers(1, 3), st.integers(1, 3), st.booleans())


def answer(of: Sequence[Machine], racked: GangPart, rowed: GangPart, *, zoned: bool) -> GangAssignment:
    """The engine's answer. zoned: whether one zone must hold both parts."""
    nodes, reports = [], []
    for machine in of:
        labels = {"example.com/zone": machine.zone, "example.com/rack": machine.rack, "example.com/row": machine.row}
        total = {"cpu": 1000 * sum(machine.free), "memory": 2**40, "pods": 110}
        nodes.append(node(name=machine.name, allocatable=total, labels=labels))
        reports.append(
            topology(node=machine.name, free=[{"cpu": 1000 * free, "memory": 2**39} for free in machine.free])
        )
    snapshot = Snapshot(state(*nodes, *reports).node_arrays())
    trees = TopologyTrees()
    first = Gang(
        "racked",
        Constraint(RACK if racked.bound else None),
        (podset(name="racked", of=pod({"cpu": str(racked.cpus), "memory": "1Gi"}), count=racked.pods),),
    )
    other = Gang(
        "rowed",
        Constraint(ROW if rowed.bound else None),
        (podset(name="rowed", of=pod({"cpu": str(rowed.cpus), "memory": "1Gi"}), count=rowed.pods),),
    )
    gang = Gang(
        "both",
        Constraint(ZONE if zoned else None),
        subgroups=(first,),
        elsewhere=(OtherTopology.of(trees.tree(ROWS, snapshot.node_arrays), [other]),),
    )
    return assign_gang(snapshot, trees.tree(RACKS, snapshot.node_arrays), gang)


def exists(of: Sequence[Machine], racked: GangPart, rowed: GangPart, *, zoned: bool) -> bool:
    """Whether any placement holds both parts."""
    return any(
        _holds([list(machine.free) for machine in of], _pods(of, racked, rowed, zone, rack, row))
        for zone in (sorted({machine.zone for machine in of}) if zoned else [None])
        for rack in (sorted({(machine.zone, machine.rack) for machine in of}) if racked.bound else [None])
        for row in (sorted({machine.row for machine in of}) if rowed.bound else [None])
    )


def _pods(
    of: Sequence[Machine],
    racked: GangPart,
    rowed: GangPart,
    zone: str | None,
    rack: tuple[str, str] | None,
    row: str | None,
) -> list[tuple[int, list[int]]]:
    """(CPUs, nodes) of each pod: the nodes on which it may be."""
    inside = [n for n, machine in enumerate(of) if zone in {None, machine.zone}]
    in_rack = [n for n in inside if rack in {None, (of[n].zone, of[n].rack)}]
    in_row = [n for n in inside if row in {None, of[n].row}]
    return [(racked.cpus, in_rack)] * racked.pods + [(rowed.cpus, in_row)] * rowed.pods


def _holds(free: list[list[int]], pods: Sequence[tuple[int, list[int]]]) -> bool:
    if not pods:
        return True
    (cpus, nodes), *rest = pods
    for n in nodes:
        for zone in range(2):
            if free[n][zone] >= cpus:
                free[n][zone] -= cpus
                held = _holds(free, rest)
                free[n][zone] += cpus
                if held:
                    return True
    return False


def _taken(found: GangAssignment, racked: GangPart, rowed: GangPart) -> Iterator[tuple[str, int, int]]:
    for each in found.pods():
        yield each.node, each.numa_nodes[0], (racked if each.set == "racked" else rowed).cpus


@settings(max_examples=300, deadline=None)
@given(machines, parts, parts, st.booleans())
def test_parts_in_two_topologies_are_placed_together_or_not_at_all(
    of: list[Machine], racked: GangPart, rowed: GangPart, zoned: bool
) -> None:
    found = answer(of, racked, rowed, zoned=zoned)
    if not found.assigned:
        assert not list(found.pods())
        assert not exists(of, racked, rowed, zoned=zoned)
        assert found.exhaustive
        return
    by_name = {machine.name: machine for machine in of}
    left = {(machine.name, zone): free for machine in of for zone, free in enumerate(machine.free)}
    for name, zone, cpus in _taken(found, racked, rowed):
        left[name, zone] -= cpus
    assert min(left.values()) >= 0
    pods = list(found.pods())
    assert sorted(each.set for each in pods) == ["racked"] * racked.pods + ["rowed"] * rowed.pods
    if zoned:
        assert len({by_name[each.node].zone for each in pods}) == 1
    if racked.bound:
        assert len({(by_name[e.node].zone, by_name[e.node].rack) for e in pods if e.set == "racked"}) == 1
    if rowed.bound:
        assert len({by_name[each.node].row for each in pods if each.set == "rowed"}) == 1
