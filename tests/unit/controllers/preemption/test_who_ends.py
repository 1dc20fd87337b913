"""Which pods the leader spares, and which of those that leave it waits for."""

from typing import Any

import pytest

from tests.builders.pods import created
from tests.property.preemptors import Cluster, Placed
from tests.unit.controllers.preemption.leader import PreemptingLeader, high, member, one_node
from webhook.engine.preemption.candidates import Victims
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME

YEAR = 31_536_000

# n0 ── NUMA 0 [0 of 8: a, priority 0]  NUMA 1 [0 of 8: b, priority 10]


def change(leader: PreemptingLeader, key: str, **fields: Any) -> None:
    """Change fields of a pod's metadata, spec or status."""
    raw = leader.api.pods[key]
    parts = {part: {**(raw.get(part) or {}), **(fields.get(part) or {})} for part in ("metadata", "spec", "status")}
    leader.api.has({**raw, **parts})


def deleted(year: int, grace: int) -> dict[str, Any]:
    return {"deletionTimestamp": f"{year}-01-01T03:07:10Z", "deletionGracePeriodSeconds": grace}


async def test_a_pod_that_ends_in_a_year_is_not_waited_for() -> None:
    leader = PreemptingLeader(one_node(), high())
    change(leader, "default/a", metadata=deleted(2031, YEAR))
    await leader.round()
    assert leader.api.evicted == ["default/b"]


async def test_a_pod_that_ends_soon_is_waited_for() -> None:
    leader = PreemptingLeader(one_node(), high())
    change(leader, "default/a", metadata=deleted(2030, 30))
    await leader.round()
    assert leader.api.evicted == []


async def test_the_next_leader_does_not_wait_for_a_pod_that_ends_in_a_year() -> None:
    leader = PreemptingLeader(one_node(), high())
    change(leader, "default/a", metadata=deleted(2031, YEAR))
    await leader.api.nominate("default/high", "high", "n0")
    successor = leader.replaced_by()
    await successor.round()
    assert successor.api.evicted == ["default/b"]


@pytest.mark.parametrize(("grace", "victim"), [(600, "default/a"), (601, "default/b")])
async def test_a_pod_with_a_longer_graceful_period_than_a_place_is_held_for_is_spared(grace: int, victim: str) -> None:
    leader = PreemptingLeader(one_node(), high())
    change(leader, "default/a", spec={"terminationGracePeriodSeconds": grace})
    await leader.round()
    assert leader.api.evicted == [victim]


@pytest.mark.parametrize(
    ("reason", "victim"), [("PreemptionByScheduler", "default/b"), ("EvictionByEvictionAPI", "default/a")]
)
async def test_a_pod_that_the_scheduler_is_about_to_delete_for_another_is_spared(reason: str, victim: str) -> None:
    leader = PreemptingLeader(one_node(), high())
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    change(leader, "default/a", status={"conditions": [condition]})
    await leader.round()
    assert leader.api.evicted == [victim]


async def test_the_room_that_the_scheduler_freed_for_its_own_preemptor_is_given_to_no_other() -> None:
    leader = PreemptingLeader(one_node(), high())
    native = created(name="native", numa=None, annotations={"example.com/team": "other"})
    leader.api.has({**native, "status": {"nominatedNodeName": "n0"}})
    change(leader, "default/a", metadata=deleted(2030, 30))
    await leader.round()
    leader.end("default/a")
    await leader.round()
    assert "high" not in leader.nodes()
    assert leader.api.evicted == ["default/b"]
    leader.end("default/b")
    await leader.round()
    assert leader.nodes()["high"] == "n0"


@pytest.mark.parametrize(
    ("version", "kind", "victim"),
    [
        ("apps/v1", "ReplicaSet", "default/a"),
        ("apps/v1", "DaemonSet", "default/b"),
        ("no.such.api/v1", "DaemonSet", "default/a"),
    ],
)
async def test_a_pod_that_comes_back_to_the_same_node_is_spared(version: str, kind: str, victim: str) -> None:
    leader = PreemptingLeader(one_node(), high())
    owner = {"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": True}
    change(leader, "default/a", metadata={"ownerReferences": [owner]})
    await leader.round()
    assert leader.api.evicted == [victim]


async def test_a_member_on_a_node_that_does_not_exist_protects_no_other() -> None:
    leader = PreemptingLeader(one_node(), high())
    own = leader.api.pods["default/a"]["metadata"]["annotations"]
    annotations = {**own, POD_GROUP_NAME: "g", MIN_MEMBER: "2"}
    change(leader, "default/a", metadata={"annotations": annotations})
    leader.api.has(Placed("ghost", "nowhere", 1, 0, numa=0, gang="g", minimum=2).raw())
    await leader.round()
    assert leader.api.evicted == ["default/a"]


# n0 ── NUMA 0 [0 of 8: g-0, priority 0]  NUMA 1 [0 of 8: x, priority 200]


async def test_a_gang_does_not_end_its_own_running_member() -> None:
    g0 = Placed("g-0", "n0", 8, 0, numa=0, gang="g", minimum=2)
    leader = PreemptingLeader(Cluster(("n0",), (g0, Placed("x", "n0", 8, 200, numa=1))), member(1, 2))
    searched: list[Any] = []
    run = leader.preemption._search.run

    def noted(preemptor: Any, closed: Any) -> Any:
        found = yield from run(preemptor, closed)
        searched.append((preemptor, found))
        return found

    leader.preemption._search.run = noted  # type: ignore[method-assign,assignment]
    await leader.round()
    assert leader.api.evicted == []
    ((preemptor, found),) = searched
    assert not isinstance(found.victims, Victims)
    assert not leader.preemption._search.still_holds(preemptor, {"default/g-0": "g-0"}, ())


# n0 ── NUMA 0 [0 of 8: a, priority 0]  NUMA 1 [0 of 8, stays]; n1 likewise with c


def two_halves() -> Cluster:
    pods = (
        *(Placed(name, node, 8, 0, numa=0) for name, node in (("a", "n0"), ("c", "n1"))),
        *(Placed(f"stays-{node}", node, 8, 5000, numa=1) for node in ("n0", "n1")),
    )
    return Cluster(("n0", "n1"), pods)


async def test_a_pod_with_a_place_of_its_own_does_not_take_that_of_a_lower_priority() -> None:
    leader = PreemptingLeader(two_halves(), high("higher", priority=1000), high("lower", second=1))
    await leader.round()
    assert len(leader.holds) == 2
    places = {name: next(iter(nodes)) for name, nodes in leader.holds.items()}
    first = {"n0": "default/a", "n1": "default/c"}[places["pod lower"]]
    leader.end(first)
    await leader.round()
    assert leader.nodes().get("lower") == places["pod lower"]
    leader.end(*{"default/a", "default/c"} - {first})
    await leader.round()
    assert leader.nodes()["higher"] == places["pod higher"]
    assert len(leader.api.evicted) == 2


async def test_a_place_that_a_higher_priority_took_is_no_sign_of_a_fault() -> None:
    leader = PreemptingLeader(one_node(), high("x"))
    await leader.round()
    leader.end("default/a", shown=False)
    leader.api.has(high("higher", priority=1000, second=1))
    leader.show_nodes()
    await leader.cycle()
    assert "higher" in leader.nodes()
    assert leader.holds == {"pod x": {"n0"}}
    await leader.round()
    assert leader.holds == {}
    in_vain = leader.controller.planner.preemptors.in_vain
    assert (in_vain.closed, in_vain._in_a_row) == (frozenset(), [])
