"""Gangs with parts in several topologies, as the leader places them."""

import json
from typing import Any

import pytest

from tests.builders.nodes import node
from tests.builders.pod_groups import constraint, pod_group
from tests.builders.pods import bound
from tests.builders.topologies import topology
from tests.builders.workloads import of, owned, template
from tests.unit.controllers.leader import Leader
from tests.unit.controllers.subgroups import SUBGROUP, pods, said
from webhook.engine.gang import several_topologies
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.names import DOMAIN, KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, PLACEMENT
from webhook.placing.gang.gang_agreement import agree
from webhook.placing.gang.gang_search import GangSearch, GatedGang, search_gang
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of
from webhook.state.rules import Rules

ZONE, RACK, ROW = "example.com/zone", "example.com/rack", "example.com/row"
# zone-a ─┬─ rack-1 ── n1 [2] row-x                      [free CPUs]
#         └─ rack-2 ── n2 [4] row-y
# zone-b ─── rack-3 ─┬─ n3 [2] row-x
#                    └─ n4 [2] row-y
PLACES = {"n1": ("a", "1", "x", 2), "n2": ("a", "2", "y", 4), "n3": ("b", "3", "x", 2), "n4": ("b", "3", "y", 2)}


def nodes(**cpus: int) -> list[dict[str, Any]]:
    """The nodes above, and both topologies. cpus: of other sizes."""
    return [
        topology(labels=(ZONE, RACK), name="racks"),
        topology(labels=(ROW,), name="rows"),
        *(
            node(name=name, cpus=cpus.get(name, own), labels={ZONE: zone, RACK: rack, ROW: row})
            for name, (zone, rack, row, own) in PLACES.items()
        ),
    ]


def part(name: str, minimum: int, level: str, of: str) -> dict[str, Any]:
    return {"name": name, "minMember": minimum, "topologyConstraint": constraint(level, topology=of)}


def at(leader: Leader, name: str) -> set[str]:
    return {where for pod, where in leader.nodes().items() if pod.startswith(f"{name}-")}


async def test_each_part_is_in_one_domain_of_its_topology_and_its_pods_say_so() -> None:
    leader = Leader(*nodes(), pod_group(part("a", 4, RACK, "racks"), part("b", 4, ROW, "rows")))
    leader.api.has(*pods("a", 4), *pods("b", 4))
    await leader.cycle()
    assert leader.waiting() == set()
    # Rack 2 and rack 3 hold part a; beside it in rack 2, row x is the only one that holds part b.
    assert (at(leader, "a"), at(leader, "b")) in [({"n2"}, {"n1", "n3"}), ({"n3", "n4"}, {"n2"})]
    annotations = {name: leader.api.pods[f"default/{name}"]["metadata"]["annotations"] for name in ("a-0", "b-0")}
    assert [annotations[name][KAI_TOPOLOGY] for name in ("a-0", "b-0")] == ["racks", "rows"]
    assert [list(json.loads(annotations[name][DOMAIN])) for name in ("a-0", "b-0")] == [[ZONE, RACK], [ROW]]
    assert "8 pods in the cluster (a: rack " in annotations["b-0"][PLACEMENT]
    assert " of topology rows)" in annotations["b-0"][PLACEMENT]


async def test_the_level_of_the_whole_group_binds_parts_in_other_topologies_too() -> None:
    whole = constraint(ZONE, topology="racks")
    group = pod_group(part("a", 2, RACK, "racks"), part("b", 2, ROW, "rows"), topologyConstraint=whole)
    leader = Leader(*nodes(), group)
    leader.api.has(*pods("a", 2), *pods("b", 2))
    await leader.cycle()
    assert leader.waiting() == set()
    assert len({PLACES[where][0] for where in leader.nodes().values()}) == 1


async def test_none_is_placed_if_one_part_has_no_room_and_the_text_names_it_with_its_topology() -> None:
    leader = Leader(*nodes(), pod_group(part("a", 2, RACK, "racks"), part("b", 7, ROW, "rows")))
    leader.api.has(*pods("a", 2), *pods("b", 7))
    await leader.cycle()
    assert len(leader.waiting()) == 9
    text = said(leader, "a-0")
    assert "part b (topology rows): row y holds 6 of 7 pods: cpu" in text
    assert "not even an empty cluster has a place for it, part b (topology rows): the best row, y," in text


async def test_a_member_that_comes_later_joins_the_domain_of_its_part() -> None:
    leader = Leader(*nodes(n1=3), pod_group(part("a", 1, RACK, "racks"), part("b", 1, ROW, "rows")))
    runs = [
        bound(
            name=f"{name}-0",
            node=where,
            cpu=1,
            numa=None,
            group="g",
            metadata={"labels": {SUBGROUP: name}},
        )
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
    leader = Leader(*nodes(n1=0, n3=0, n4=0), pod_group(part("a", 2, RACK, "racks"), part("b", 2, ROW, "rows")))
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
    chain = of(owned("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas}, **IN_A_ZONE))
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
    leader = Leader(*nodes(n2=1))
    cluster = leader.cache.snapshot()
    agreed = agree(gang, {}, cluster.topologies)
    assert not agreed.disagreeing
    found = search_gang(agreed.gang, agreed.minimum, {}, cluster, TopologyTrees(), Rules())
    assert isinstance(found, GangSearch)
    where = {pod.name: PLACES[pod.node] for pod in found.placement.pods()}
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
