"""Grove's PodGangs, as the leader places them."""

from typing import Any

import pytest

from tests.builders.grove import GATE, binding, config, labels, pack, pod_gang, podgroup
from tests.builders.nodes import node
from tests.builders.pod_groups import pod_group
from tests.builders.pods import GATES, bound, gated
from tests.unit.controllers.leader import Leader
from webhook.model.names import DOMAIN, KAI_TOPOLOGY, PLACEMENT

ZONE, RACK = LEVELS = ("example.com/zone", "example.com/rack")

# zone-a ─┬─ rack-1 ─┬─ a1 [2]                [free CPUs]
#         │          └─ a2 [1]
#         └─ rack-2 ─── a3 [4]
# zone-b ─── rack-3 ─┬─ b4 [4]
#                    └─ b5 [4]
PLACES = {"a1": ("a", "1", 2), "a2": ("a", "1", 1), "a3": ("a", "2", 4), "b4": ("b", "3", 4), "b5": ("b", "3", 4)}


def nodes() -> list[dict[str, Any]]:
    return [
        binding(*LEVELS),
        *(
            node(name=name, cpus=cpus, labels=dict(zip(LEVELS, place, strict=True)))
            for name, (*place, cpus) in PLACES.items()
        ),
    ]


def pods(clique: str, count: int, *, gang: str = "g", gates: Any = GATES, **how: Any) -> list[dict[str, Any]]:
    """Pods of one CPU of a PodClique, as they are after their creation."""
    return [
        gated(
            name=f"{clique}-{n}",
            group=gang,
            cpu=1,
            numa=None,
            metadata={"labels": labels(clique, n, gang)},
            schedulingGates=gates,
            **how,
        )
        for n in range(count)
    ]


def placement(leader: Leader, name: str) -> str:
    """The placement text of a placed pod."""
    return str(leader.api.pods[f"default/{name}"]["metadata"]["annotations"][PLACEMENT])


def racks(leader: Leader, *cliques: str) -> set[str]:
    """The racks of the pods of these PodCliques."""
    return {PLACES[at][1] for name, at in leader.nodes().items() if name.rpartition("-")[0] in cliques}


async def test_each_replica_of_a_scaling_group_gets_its_rack_in_the_zone_of_the_gang() -> None:
    # One replica is a leader and 3 workers. Zone b has the most room, but one rack only for two of them.
    groups = [
        podgroup("router", 1),
        *(podgroup(f"{n}-{part}", count) for n in "01" for part, count in (("leader", 1), ("worker", 2))),
    ]
    configs = [config(f"s-{n}", [f"{n}-leader", f"{n}-worker"], RACK) for n in "01"]
    leader = Leader(*nodes(), pod_gang(*groups, configs=configs, **pack(ZONE)))
    leader.api.has(*pods("router", 1), *(one for n in "01" for one in pods(f"{n}-leader", 1) + pods(f"{n}-worker", 2)))
    await leader.cycle()
    assert leader.waiting() == set()
    assert len(racks(leader, "0-leader", "0-worker")) == len(racks(leader, "1-leader", "1-worker")) == 1
    assert len({PLACES[at][0] for at in leader.nodes().values()}) == 1
    placed = leader.api.pods["default/0-leader-0"]["metadata"]["annotations"]
    assert placed[KAI_TOPOLOGY] == "network"
    assert '"example.com/rack"' in placed[DOMAIN]


async def test_a_required_rack_within_a_required_rack_is_one_rack() -> None:
    # A level below that is coarser than that above adds nothing: in the rack of the gang, which is in one zone.
    leader = Leader(*nodes(), pod_gang(podgroup("a", 2, ZONE), podgroup("b", 2, RACK), **pack(RACK)))
    leader.api.has(*pods("a", 2), *pods("b", 2))
    await leader.cycle()
    assert leader.waiting() == set()
    assert len(racks(leader, "a", "b")) == 1


async def test_a_preferred_rack_is_left_where_none_has_room_and_the_text_says_so() -> None:
    leader = Leader(*nodes(), pod_gang(podgroup("a", 9, preferred=RACK)))
    leader.api.has(*pods("a", 9))
    await leader.cycle()
    assert leader.waiting() == set()
    assert "preferred rack missed: in " in placement(leader, "a-0")


async def test_it_waits_until_each_podgroup_has_its_minimum_and_later_pods_join_in_the_rack() -> None:
    leader = Leader(*nodes(), pod_gang(podgroup("a", 2), podgroup("b", 1), **pack(RACK)))
    leader.api.has(*pods("a", 2))
    await leader.cycle()
    assert leader.waiting() == {"a-0", "a-1"}
    assert "0 of 1 of subgroup b pods that must start together" in leader.text("a-0")
    leader.api.has(*pods("b", 1))
    await leader.cycle()
    assert leader.waiting() == set()
    before = racks(leader, "a", "b")
    leader.api.has(pods("a", 3)[2])
    await leader.cycle()
    assert leader.waiting() == set()
    assert racks(leader, "a", "b") == before


async def test_a_pod_behind_groves_gate_is_neither_placed_nor_counted_as_there() -> None:
    leader = Leader(*nodes(), pod_gang(podgroup("a", 2)))
    ready, held = pods("a", 2)
    held["spec"]["schedulingGates"] = [{"name": GATE}, *GATES]
    leader.api.has(ready, held)
    await leader.cycle()
    assert leader.waiting() == {"a-0"}
    assert "1 of 2 of subgroup a pods that must start together" in leader.text("a-0")
    assert leader.api.pods["default/a-1"]["spec"]["schedulingGates"] == [{"name": GATE}, *GATES]
    held["spec"]["schedulingGates"] = GATES
    leader.api.has(held)
    await leader.cycle()
    assert leader.waiting() == set()


async def test_a_scaled_podgang_is_a_gang_of_its_own() -> None:
    leader = Leader(*nodes(), pod_gang(podgroup("a", 4, RACK)), pod_gang(podgroup("b", 4, RACK), name="g-s-0"))
    leader.api.has(*pods("b", 3, gang="g-s-0"), *pods("a", 4))
    await leader.cycle()
    assert leader.waiting() == {"b-0", "b-1", "b-2"}
    leader.api.has(pods("b", 4, gang="g-s-0")[3])
    await leader.cycle()
    assert leader.waiting() == set()
    assert len(racks(leader, "b")) == 1


async def test_pods_wait_for_their_podgang_and_for_its_correction() -> None:
    leader = Leader(*nodes())
    leader.api.has(*pods("a", 1))
    await leader.cycle()
    assert 'metadata.labels[grove.io/podclique] is "a", and the PodGang does not exist' in leader.text("a-0")
    feed = leader.cache.pod_gangs.feed
    feed.upsert("default/g", pod_gang(podgroup("a", -1)))
    await leader.cycle()
    assert "PodGang g: spec.podgroups[0].minReplicas: -1 is not a number of pods" in leader.text("a-0")
    feed.upsert("default/g", pod_gang(podgroup("b", 1)))
    await leader.cycle()
    assert 'metadata.labels[grove.io/podclique]: "a" is no subgroup of PodGang g' in leader.text("a-0")
    feed.upsert("default/g", pod_gang(podgroup("a", 1), topology="unknown", **pack(RACK)))
    await leader.cycle()
    assert 'metadata.annotations[grove.io/topology-name]: There is no topology "unknown"' in leader.text("a-0")
    feed.upsert("default/g", pod_gang(podgroup("a", 1), **pack(RACK)))
    await leader.cycle()
    assert leader.waiting() == set()


async def test_an_annotation_that_contradicts_the_podgang_is_a_fault_of_its_pod() -> None:
    leader = Leader(*nodes(), pod_gang(podgroup("a", 1), **pack(RACK)))
    own = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": ZONE}
    leader.api.has(*pods("a", 1, annotations=own))
    await leader.cycle()
    assert "and PodGang g says" in leader.text("a-0")


async def test_what_the_podgang_asks_for_without_effect_is_said_while_it_waits_and_once_it_is_placed() -> None:
    leader = Leader(*nodes(), pod_gang(podgroup("a", 5, RACK), priorityClassName="high"))
    leader.api.has(*pods("a", 5))
    leader.api.has(bound(name="other", cpu=4, numa=None, node="b4"))
    said = 'not used of PodGang g: its priority class "high" (that of each pod counts)'
    await leader.cycle()
    assert said in leader.text("a-0")
    leader.api.delete("default/other")
    await leader.cycle()
    assert leader.waiting() == set()
    assert said in placement(leader, "a-0")


@pytest.mark.parametrize("first", ["PodGang", "PodGroup"])
async def test_of_a_podgang_and_a_podgroup_with_one_name_the_podgang_counts(first: str) -> None:
    written = {"PodGang": pod_gang(podgroup("a", 1)), "PodGroup": pod_group(minMember=7)}
    order = [written.pop(first), *written.values()]
    leader = Leader(*nodes(), *order)
    leader.api.has(*pods("a", 1))
    await leader.cycle()
    assert leader.waiting() == set()
