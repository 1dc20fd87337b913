"""Gangs whose members exclude each other, against trying every assignment of a small tree."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.gangs import LEVELS, RACK, TOPOLOGY, ZONE, podset
from tests.builders.records import GI, node, state
from tests.builders.records import pod as record
from webhook.engine.gang import assign_gang
from webhook.engine.gang.gang_spec import Constraint, Gang
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kubernetes.exclusions import PodExclusions
from webhook.formats.kubernetes.pod import Pod
from webhook.model.names import HOSTNAME_LABEL


def rule(selector: dict[str, Any], key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": selector}, "topologyKey": key}


def member(role: str, cpus: int, spec: dict[str, Any]) -> Pod:
    labels = {"app": "w", "role": role}
    found = record({"cpu": str(cpus)})
    return Pod(
        **{field: getattr(found, field) for field in Pod.__slots__ if field not in {"labels", "exclusions"}},
        labels=labels,
        exclusions=PodExclusions.of(spec, "", labels),
    )


def anti(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def cluster(cpus: list[int], racks: list[str]) -> tuple[Snapshot, TopologyTree]:
    """Nodes n0, n1, …; racks: "zone/rack" of each."""
    nodes = [
        node(
            name=f"n{index}",
            allocatable={"cpu": 1000 * free, "memory": 100 * GI, "pods": 20},
            labels={**dict(zip(LEVELS, place.split("/"), strict=True)), HOSTNAME_LABEL: f"n{index}"},
        )
        for index, (free, place) in enumerate(zip(cpus, racks, strict=True))
    ]
    arrays = state(*nodes).node_arrays()
    return Snapshot(arrays), TopologyTrees().tree(TOPOLOGY, arrays)


def excludes(one: str, other: str, ask: dict[str, str]) -> bool:
    """Whether a pod of one role keeps one of the other off its node. ask: role -> what it selects."""
    return {"": False, "own": one == other, "all": True}[ask[one]]


def fits(
    pods: list[tuple[str, int]], cpus: list[int], places: list[str], level: int | None, ask: dict[str, str]
) -> bool:
    """Whether some assignment of the pods (role, cpus) is within one domain, and keeps every rule."""
    for choice in product(range(len(cpus)), repeat=len(pods)):
        used = [sum(cpu for (_, cpu), at in zip(pods, choice, strict=True) if at == n) for n in range(len(cpus))]
        domains = {"/".join(places[at].split("/")[:level]) for at in choice} if level else set()
        if len(domains) > 1 or any(one > free for one, free in zip(used, cpus, strict=True)):
            continue
        pairs = [
            (pods[one][0], pods[other][0])
            for one in range(len(pods))
            for other in range(len(pods))
            if one != other and choice[one] == choice[other]
        ]
        if not any(excludes(one, other, ask) for one, other in pairs):
            return True
    return False


where = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a/1", "a/2", "b/1"])), min_size=1, max_size=4)
roles = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4)
asks = st.fixed_dictionaries({role: st.sampled_from(["", "own", "all"]) for role in ("a", "b")})


@given(where, roles, asks, st.sampled_from([None, ZONE, RACK]), st.booleans())
def test_a_gang_whose_members_exclude_each_other_on_nodes_is_placed_exactly_where_one_can_be(
    nodes: list[tuple[int, str]], members: list[str], ask: dict[str, str], level: int | None, ports: bool
) -> None:
    cpus, places = [free for free, _ in nodes], [place for _, place in nodes]
    snapshot, tree = cluster(cpus, places)
    sizes = {"a": 1, "b": 2}
    sets = []
    for role in sorted(set(members)):
        selector = {"role": role} if ask[role] == "own" else {"app": "w"}
        spec = anti(rule(selector, HOSTNAME_LABEL)) if ask[role] else {}
        if ports and ask[role] == "own":
            spec = {"containers": [{"ports": [{"hostPort": 80 if role == "a" else 81}]}]}
        sets.append(podset(name=role, of=member(role, sizes[role], spec), count=members.count(role)))
    found = assign_gang(snapshot, tree, Gang("g", Constraint(level), tuple(sets)))
    possible = fits([(role, sizes[role]) for role in members], cpus, places, level, ask)
    assert found.assigned is possible
    at = [(pod.name[0], pod.node) for pod in found.pods()]
    for index, (one, here) in enumerate(at):
        for other, there in at[:index]:
            assert here != there or not (excludes(one, other, ask) or excludes(other, one, ask))


@given(where, st.integers(1, 5), st.sampled_from([None, ZONE, RACK]), st.sampled_from([ZONE, RACK]))
def test_equal_pods_that_exclude_each_other_in_a_domain_are_placed_exactly_where_they_can_be(
    nodes: list[tuple[int, str]], count: int, required: int | None, apart: int
) -> None:
    cpus, places = [free for free, _ in nodes], [place for _, place in nodes]
    snapshot, tree = cluster(cpus, places)
    of = member("a", 1, anti(rule({"app": "w"}, LEVELS[apart - 1])))
    found = assign_gang(snapshot, tree, Gang("g", Constraint(required), (podset(name="a", of=of, count=count),)))

    def domain(at: int, level: int | None) -> str:
        return "/".join(places[at].split("/")[:level]) if level else ""

    possible = any(
        all(cpus[at] >= 1 for at in choice)
        and len({domain(at, apart) for at in choice}) == count
        and len({domain(at, required) for at in choice}) == 1
        for choice in product(range(len(cpus)), repeat=count)
    )
    assert found.assigned is possible
    taken = [domain(int(pod.node.removeprefix("n")), apart) for pod in found.pods()]
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize(("count", "most"), [(3, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_pods_that_spread_exceed_their_skew_only_once_every_node_has_some(count: int, most: int) -> None:
    snapshot, tree = cluster([9, 9, 9, 9], ["a/1"] * 4)
    constraint = {**rule({"app": "w"}, HOSTNAME_LABEL), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    of = member("a", 1, {"topologySpreadConstraints": [constraint]})
    found = assign_gang(snapshot, tree, Gang("g", Constraint(RACK), (podset(name="a", of=of, count=count),)))
    nodes = [pod.node for pod in found.pods()]
    assert len(nodes) == count
    assert max(map(nodes.count, nodes)) <= max(most, 1 + count // 4)


def test_a_member_with_a_rule_joins_no_node_where_one_of_some_other_kind_may_run() -> None:
    snapshot, tree = cluster([9, 9], ["a/1"] * 2)
    plain, alone = member("a", 1, {}), member("b", 1, anti(rule({"role": "b"}, HOSTNAME_LABEL)))
    for count, assigned in ((1, True), (2, False)):
        sets = podset(name="a", of=plain, count=1, running=[(0, "n1")]), podset(name="b", of=alone, count=count)
        found = assign_gang(snapshot, tree, Gang("g", Constraint(RACK), sets))
        assert found.assigned is assigned
        assert {pod.node for pod in found.pods() if pod.set == "b"} <= {"n0"}


def test_members_that_run_take_part_in_it() -> None:
    snapshot, tree = cluster([9, 9, 9], ["a/1"] * 3)
    of = member("a", 1, anti(rule({"app": "w"}, HOSTNAME_LABEL)))
    for count, assigned in ((2, True), (3, False)):
        one = podset(name="a", of=of, count=count, running=[(0, "n1")])
        found = assign_gang(snapshot, tree, Gang("g", Constraint(RACK), (one,)))
        assert found.assigned is assigned
        assert {pod.node for pod in found.pods()} <= {"n0", "n2"}
