"""Gangs of several kinds of pods with constraints of their own, compared with an exhaustive search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.gangs import GPU, LEVELS, RACK, ZONE, group, podset
from tests.builders.records import node, pod, state, topology
from tests.unit.engine.gang.assignments import assigned
from webhook.engine.gang.gang_spec import Constraint, Gang, Segments
from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.cluster_state import ClusterState

Zones = tuple[tuple[int, int], ...]
"""Free (CPUs, GPUs) of each NUMA node."""


@dataclass(frozen=True)
class Machine:
    name: str
    zone: str | None
    rack: str | None
    zones: Zones

    def value(self, level: int) -> tuple[str | None, ...] | None:
        """The path of the machine's domain at a level; None if it is in no domain."""
        path = (self.zone, self.rack)[:level]
        return None if None in path else path


machines = st.lists(
    st.tuples(
        st.sampled_from(["a", "a", "b", None]),
        st.sampled_from(["r1", "r2", None]),
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=2, max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=4,
).map(lambda drawn: [Machine(f"n{index}", zone, rack, zones) for index, (zone, rack, zones) in enumerate(drawn)])
wants = st.tuples(st.integers(1, 3), st.integers(0, 1))
bounds = st.sampled_from([Constraint(), Constraint(ZONE), Constraint(RACK), Constraint(None, RACK)])


def cluster(of: Sequence[Machine], *, numa: bool) -> ClusterState:
    """The machines as nodes. numa: with NRTs."""
    nodes, topologies = [], []
    for machine in of:
        labels = {
            label: value for label, value in zip(LEVELS, (machine.zone, machine.rack), strict=True) if value is not None
        }
        total = {"cpu": 1000 * sum(cpu for cpu, _ in machine.zones), GPU: sum(gpu for _, gpu in machine.zones)}
        nodes.append(node(name=machine.name, allocatable={**total, "memory": 2**40, "pods": 110}, labels=labels))
        if numa:
            free = [{"cpu": 1000 * cpu, "memory": 2**39, GPU: gpu} for cpu, gpu in machine.zones]
            topologies.append(topology(node=machine.name, free=free))
    return state(*nodes, *topologies)


def asking(want: tuple[int, int]) -> dict[str, str]:
    """The resource list of a pod."""
    return {"cpu": str(want[0]), "memory": "1Gi"} | ({GPU: str(want[1])} if want[1] else {})


@dataclass(frozen=True)
class Team:
    """A subgroup: equal pods under one constraint, possibly in segments."""

    want: tuple[int, int]
    count: int
    constraint: Constraint
    segments: Segments | None


teams = st.lists(
    st.builds(Team, wants, st.integers(1, 3), bounds, st.none() | st.just(Segments(2, Constraint(RACK)))),
    min_size=1,
    max_size=2,
)


def as_group(of: Sequence[Team], constraint: Constraint) -> Gang:
    """The teams as a gang of subgroups."""
    sets = [
        podset(name=f"s{at}", of=pod(asking(team.want)), count=team.count, segments=team.segments)
        for at, team in enumerate(of)
    ]
    subgroups = [group(each, constraint=team.constraint, name=each.name) for each, team in zip(sets, of, strict=True)]
    return group(*subgroups, constraint=constraint)


def whole(machine: Machine) -> tuple[int, int]:
    """Free CPUs and GPUs of the machine."""
    return sum(cpu for cpu, _ in machine.zones), sum(gpu for _, gpu in machine.zones)


def left_of(free: tuple[int, int], want: tuple[int, int]) -> tuple[int, int]:
    """What is left after one more pod."""
    left = free[0] - want[0], free[1] - want[1]
    assert min(left) >= 0, "over-committed"
    return left


def places(of: Sequence[Machine], team: Sequence[Team], constraint: Constraint, *, numa: bool) -> bool:
    """Whether some assignment of every pod to a NUMA node (or node) keeps all constraints."""
    pods = [(at, each, rank) for at, each in enumerate(team) for rank in range(each.count)]
    bins = [list(machine.zones) if numa else [whole(machine)] for machine in of]
    return _search(of, bins, pods, constraint, {})


def _search(
    of: Sequence[Machine],
    bins: list[list[tuple[int, int]]],
    pods: Sequence[tuple[int, Team, int]],
    constraint: Constraint,
    bound: dict[tuple[object, ...], object],
) -> bool:
    if not pods:
        return True
    (at, team, rank), rest = pods[0], pods[1:]
    for index, machine in enumerate(of):
        rules = list(_rules(at, team, rank, constraint, machine))
        if any(value is None or bound.get(key, value) != value for key, value in rules):
            continue
        tried = set()
        for zone, (cpu, gpu) in enumerate(bins[index]):
            if (cpu, gpu) in tried or cpu < team.want[0] or gpu < team.want[1]:
                continue
            tried.add((cpu, gpu))
            bins[index][zone] = (cpu - team.want[0], gpu - team.want[1])
            found = _search(of, bins, rest, constraint, bound | dict(rules))
            bins[index][zone] = (cpu, gpu)
            if found:
                return True
    return False


def _rules(
    at: int, team: Team, rank: int, constraint: Constraint, machine: Machine
) -> Iterator[tuple[tuple[object, ...], object]]:
    """(who must be together, where that would be) for one pod on one machine."""
    if constraint.required is not None:
        yield ("group",), machine.value(constraint.required)
    if team.constraint.required is not None:
        yield ("team", at), machine.value(team.constraint.required)
    if team.segments is not None:
        yield ("segment", at, rank // team.segments.size), machine.value(RACK)


def check(
    of: Sequence[Machine], asked: Sequence[Team], constraint: Constraint, answer: GangAssignment, numa: bool
) -> None:
    """Whether an answer is valid."""
    by_name = {machine.name: machine for machine in of}
    zones = {(machine.name, z): zone for machine in of for z, zone in enumerate(machine.zones)}
    nodes = {machine.name: whole(machine) for machine in of}
    bound: dict[tuple[object, ...], object] = {}
    pods = list(answer.pods())
    assert len(pods) == sum(team.count for team in asked)
    assert len({each.name for each in pods}) == len(pods)
    for each in pods:
        at = int(each.set[1:])
        team, machine = asked[at], by_name[each.node]
        for key, value in _rules(at, team, each.rank, constraint, machine):
            assert value is not None
            assert bound.setdefault(key, value) == value
        nodes[each.node] = left_of(nodes[each.node], team.want)
        if numa:
            (zone,) = each.numa_nodes
            at_zone = each.node, zone
            zones[at_zone] = left_of(zones[at_zone], team.want)


@settings(max_examples=500, deadline=None)
@given(machines, teams, bounds, st.booleans())
def test_a_group_is_placed_exactly_if_an_exhaustive_search_places_it(
    of: list[Machine], asked: list[Team], constraint: Constraint, numa: bool
) -> None:
    answer = assigned(cluster(of, numa=numa), as_group(asked, constraint))
    possible = places(of, asked, constraint, numa=numa)
    assert answer.exhaustive
    assert answer.assigned == possible
    if answer.assigned:
        check(of, asked, constraint, answer, numa)
    else:
        assert answer.why
        assert all(short.holds < short.needed for short in answer.why)


@settings(max_examples=200, deadline=None)
@given(machines, wants, wants, st.integers(1, 2), st.integers(1, 3), bounds, st.booleans())
def test_a_leader_and_its_workers_are_placed_exactly_if_an_exhaustive_search_places_them(
    of: list[Machine],
    leader: tuple[int, int],
    worker: tuple[int, int],
    leaders: int,
    workers: int,
    constraint: Constraint,
    numa: bool,
) -> None:
    asked = [Team(leader, leaders, Constraint(), None), Team(worker, workers, Constraint(), None)]
    sets = [podset(name=f"s{at}", of=pod(asking(team.want)), count=team.count) for at, team in enumerate(asked)]
    answer = assigned(cluster(of, numa=numa), group(*sets, constraint=constraint))
    assert answer.exhaustive
    assert answer.assigned == places(of, asked, constraint, numa=numa)
    if answer.assigned:
        check(of, asked, constraint, answer, numa)
