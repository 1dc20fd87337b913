"""Which pods the leader ends for those that wait, which it spares, and how it holds the place."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.pods import created
from tests.property.preemptors import FullCluster, Holder
from tests.unit.controllers.preemption.leader import PreemptingLeader, begun, high, member, members, one_node, two_nodes
from webhook.engine.preemption.candidates import Victims
from webhook.kube.write import Outcome, Write
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME


async def test_the_pod_of_the_lowest_priority_is_evicted_and_told_why() -> None:
    leader = await begun(one_node(), high())
    assert leader.api.evicted == ["default/a"]
    assert leader.api.conditions == [("default/a", "True", "PreemptionByTopologyWebhook")]
    assert {("default/high", "Preempting"), ("default/a", "Preempted")} <= set(leader.api.told())
    assert leader.holds == {"pod high": {"n0"}}
    assert leader.api.pods["default/high"]["status"]["nominatedNodeName"] == "n0"
    assert leader.text("high") == "waiting: 1 lower-priority pod on node n0 must terminate first"
    leader.end("default/a", shown=False)
    await leader.round()
    assert "the room on node n0 is reserved for it" in leader.text("high")


@pytest.mark.parametrize(
    ("cluster", "waiting"),
    [
        (one_node(), [high(preemptionPolicy="Never")]),
        (one_node(), [high(topologySpreadConstraints=[{"maxSkew": 1}])]),
        (one_node(), [high(priority=0)]),
        (two_nodes(), members(5, minimum=5)),
        (two_nodes(), members(3)),
        (two_nodes(), [*members(3), member(3, priority=0)]),
    ],
    ids=[
        "policy Never",
        "only the scheduler can choose its node",
        "the same priority",
        "a gang that would not start whole",
        "a gang that is not complete",
        "a gang with a member of low priority",
    ],
)
async def test_who_ends_no_pod(cluster: FullCluster, waiting: list[dict[str, Any]]) -> None:
    leader = await begun(cluster, *waiting)
    assert (leader.api.evicted, leader.holds) == ([], {})


async def test_no_second_pod_is_chosen_while_the_first_ends_or_its_room_is_not_shown_yet() -> None:
    leader = await begun(one_node(), high())
    await leader.round()
    leader.end("default/a", shown=False)
    for _ in range(3):
        leader.now += 40
        await leader.round()
    assert leader.api.evicted == ["default/a"]
    leader.show_nodes()
    await leader.round()
    assert leader.nodes()["high"] == "n0"
    await leader.round()
    assert leader.holds == {}


async def test_the_place_goes_to_the_preemptor_before_pods_of_its_priority_and_after_higher_ones() -> None:
    leader = await begun(one_node(), high())
    leader.api.has(high("rival", metadata={"creationTimestamp": "2020-01-01T00:00:00Z"}))
    leader.controller.planner.preemptors._delays._clock = lambda: 1e9  # nothing is put off
    await leader.round()
    assert leader.api.evicted == ["default/a"], "the node is held as a whole"
    leader.end("default/a")
    await leader.round()
    assert leader.nodes()["high"] == "n0"
    assert leader.waiting() == {"rival"}
    leader = await begun(one_node(), high())
    leader.api.has(high("higher", priority=1000))
    leader.end("default/a")
    await leader.round()
    assert leader.nodes()["higher"] == "n0"


async def test_a_pod_against_a_budget_is_deleted_as_the_last_resort() -> None:
    pods = tuple(replace(pod, app="web") for pod in one_node().pods)
    leader = await begun(replace(one_node(), pods=pods, allowed={"web": 0}), high())
    assert (leader.api.evicted, leader.api.deleted) == ([], ["default/a"])
    (preempting,) = (event.note for event in leader.api.events if event.reason == "Preempting")
    assert preempting.endswith("1 of them against a PodDisruptionBudget")


async def test_a_pod_that_no_budget_keeps_goes_first_even_at_a_higher_priority() -> None:
    a, b = one_node().pods
    leader = await begun(replace(one_node(), pods=(replace(a, app="web"), b), allowed={"web": 0}), high())
    assert (leader.api.evicted, leader.api.deleted) == (["default/b"], [])


async def test_if_one_victim_is_refused_none_ends() -> None:
    leader = PreemptingLeader(one_node(), member(0, 2), member(1, 2))
    leader.api.refusals["default/b"] = Outcome.REFUSED
    await leader.round()
    assert leader.api.evicted == []
    assert leader.api.conditions == []
    assert ("default/g-0", "PreemptionRefused") in leader.api.told()
    assert leader.holds == {}
    assert "status" not in leader.api.pods["default/g-0"], "it was nominated nowhere"
    await leader.round()
    assert leader.api.told().count(("default/g-0", "PreemptionRefused")) == 1, "it is put off"


async def test_a_choice_that_no_longer_holds_ends_no_pod() -> None:
    leader = PreemptingLeader(one_node(), high())
    nominate = leader.api.nominate

    async def ended_meanwhile(key: str, uid: str, node: str | None) -> Write:
        if "default/b" in leader.api.pods:
            leader.end("default/b")  # now there is room
        return await nominate(key, uid, node)

    leader.api.nominate = ended_meanwhile  # type: ignore[method-assign]
    await leader.round()
    assert leader.api.evicted == []
    assert leader.nodes()["high"] == "n0"


async def test_who_no_longer_leads_ends_no_pod() -> None:
    leader = PreemptingLeader(one_node(), high())
    await leader.cycle()
    leader.leads = False
    await leader.preemption.choose()
    await leader.preemption.settle()
    assert leader.api.evicted == []


async def test_a_victim_that_hangs_costs_the_hold_and_the_next_try_comes_later() -> None:
    leader = await begun(one_node(), high())
    leader.cache._clock = lambda: 4e9  # long after its graceful period
    await leader.round()
    assert leader.holds == {}
    assert leader.api.pods["default/high"]["status"]["nominatedNodeName"] is None
    assert leader.api.evicted == ["default/a"]


async def test_room_that_is_never_shown_is_not_held_longer_than_an_exporter_takes() -> None:
    leader = await begun(one_node(), high())
    leader.end("default/a", shown=False)
    await leader.round()
    leader.now += 129
    await leader.round()
    assert leader.holds
    leader.now += 2
    await leader.round()
    assert not leader.holds
    assert leader.api.evicted == ["default/a"], "the next choice comes a minute later"


async def test_the_next_leader_holds_the_same_and_chooses_no_more() -> None:
    leader = await begun(one_node(), high())
    successor = leader.replaced_by()
    await successor.round()
    assert successor.holds == leader.holds
    assert successor.api.evicted == []
    successor.end("default/a", shown=False)
    await successor.round()
    assert successor.api.evicted == []
    successor.show_nodes()
    await successor.round()
    assert successor.nodes()["high"] == "n0"


async def test_if_the_last_leader_evicted_no_pod_the_next_one_chooses_anew() -> None:
    leader = PreemptingLeader(one_node(), high())
    await leader.api.nominate("default/high", "high", "n0")
    successor = leader.replaced_by()
    await successor.round()
    assert successor.api.evicted == ["default/a"]


async def test_a_hopeless_pod_is_not_searched_for_again_before_a_change_and_equal_pods_share_the_result() -> None:
    leader = PreemptingLeader(one_node(), *(high(f"h{number}", priority=5, cpu=8) for number in range(3)))
    # b cannot go; a can: one of them gets it, the others are hopeless.
    searched = leader.searches()
    for _ in range(5):
        await leader.round()
    assert leader.api.evicted == ["default/a"]
    assert len(searched) <= 3


# n0, n1 ── NUMA 0 [0 of 8], NUMA 1 [0 of 8]; a gang needs all four


async def test_a_gang_frees_its_place_and_starts_whole() -> None:
    leader = await begun(two_nodes(), *members())
    victims = sorted(leader.api.evicted)
    assert victims == ["default/v00", "default/v01", "default/v10", "default/v11"]
    assert set(leader.holds.values()) == {frozenset({"n0", "n1"})}
    nominated = [leader.api.pods[f"default/g-{number}"]["status"]["nominatedNodeName"] for number in range(4)]
    assert sorted(nominated) == ["n0", "n0", "n1", "n1"]
    assert "4 lower-priority pods on 2 nodes (n0, n1) must terminate first" in leader.text("g-0")
    leader.end(*victims[:3])
    await leader.round()
    assert leader.waiting() == {"g-0", "g-1", "g-2", "g-3"}
    leader.end(victims[3])
    await leader.round()
    assert leader.waiting() == set()


def one_numa_node_counts() -> FullCluster:
    """n0 ── NUMA 0 [4 of 8: a]  NUMA 1 [0 of 8: b, which stays]."""
    return FullCluster(("n0",), (Holder("a", "n0", 4, 0, numa=0), Holder("b", "n0", 8, 500, numa=1)))


async def test_the_next_leader_keeps_the_place_from_an_older_pod_of_the_same_priority() -> None:
    leader = await begun(one_numa_node_counts(), high("x", cpu=8, second=5))
    assert leader.api.evicted == ["default/a"]
    leader.api.has(high("old", cpu=3, second=1))
    await leader.round()
    assert leader.waiting() == {"x", "old"}
    successor = leader.replaced_by()
    await successor.round()
    assert successor.waiting() == {"x", "old"}


async def test_the_place_is_kept_after_the_api_server_refused_to_place_the_preemptor_there() -> None:
    leader = await begun(one_numa_node_counts(), high("x", cpu=8, second=5))
    leader.end("default/a")
    leader.api.outcome = Outcome.REFUSED
    await leader.cycle()
    assert leader.api.patched == ["default/x"]
    leader.api.outcome = Outcome.WRITTEN
    leader.api.has(high("rival", cpu=3, second=6))
    leader.preemption.check_holds(0.5)
    assert leader.holds == {"pod x": {"n0"}}
    await leader.cycle()
    assert leader.waiting() == {"x", "rival"}


async def test_a_preemptor_whose_choice_was_outdated_by_the_dry_run_is_never_nominated() -> None:
    leader = PreemptingLeader(one_node(), high())
    evict = leader.api.evict

    async def and_there_is_room(key: str, uid: str, *, dry_run: bool = False) -> Write:
        if "default/b" in leader.api.pods:
            leader.end("default/b")
        return await evict(key, uid, dry_run=dry_run)

    leader.api.evict = and_there_is_room  # type: ignore[method-assign]
    await leader.cycle()
    await leader.preemption.choose()
    await leader.preemption.settle()
    assert leader.api.evicted == []
    assert "status" not in leader.api.pods["default/high"], "the scheduler would preempt pods for others on n0"


@pytest.mark.parametrize("successor", [False, True])
async def test_two_pods_that_are_nominated_on_one_node_do_not_wait_for_each_other(*, successor: bool) -> None:
    leader = await begun(one_node(), high("x"))
    assert leader.holds == {"pod x": {"n0"}}
    leader.api.has({**high("y", second=1), "status": {"nominatedNodeName": "n0"}})
    if successor:
        leader = leader.replaced_by()
    await leader.round()
    assert leader.holds == {"pod x": {"n0"}}, "what ends there ends for x"
    if not successor:
        leader.end(*leader.api.evicted)
        await leader.round()
        assert leader.nodes()["x"] == "n0"


YEAR = 31_536_000


# n0 ── NUMA 0 [0 of 8: a, priority 0]  NUMA 1 [0 of 8: b, priority 10]


def change(leader: PreemptingLeader, key: str, **fields: Any) -> None:
    """Change fields of a pod's metadata, spec or status."""
    raw = leader.api.pods[key]
    parts = {part: {**(raw.get(part) or {}), **(fields.get(part) or {})} for part in ("metadata", "spec", "status")}
    leader.api.has({**raw, **parts})


def deleted(year: int, grace: int) -> dict[str, Any]:
    return {"deletionTimestamp": f"{year}-01-01T03:07:10Z", "deletionGracePeriodSeconds": grace}


async def test_the_next_leader_does_not_wait_for_a_pod_that_ends_in_a_year() -> None:
    leader = PreemptingLeader(one_node(), high())
    change(leader, "default/a", metadata=deleted(2031, YEAR))
    await leader.api.nominate("default/high", "high", "n0")
    successor = leader.replaced_by()
    await successor.round()
    assert successor.api.evicted == ["default/b"]


def about_to_end(reason: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}}


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


def owned(version: str, kind: str) -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": True}]}


@pytest.mark.parametrize(
    ("changed", "victims"),
    [
        ({"metadata": deleted(2031, YEAR)}, ["default/b"]),
        ({"metadata": deleted(2030, 30)}, []),
        ({"spec": {"terminationGracePeriodSeconds": 600}}, ["default/a"]),
        ({"spec": {"terminationGracePeriodSeconds": 601}}, ["default/b"]),
        (about_to_end("PreemptionByScheduler"), ["default/b"]),
        (about_to_end("EvictionByEvictionAPI"), ["default/a"]),
        ({"metadata": owned("apps/v1", "ReplicaSet")}, ["default/a"]),
        ({"metadata": owned("apps/v1", "DaemonSet")}, ["default/b"]),
        ({"metadata": owned("no.such.api/v1", "DaemonSet")}, ["default/a"]),
    ],
    ids=[
        "it ends in a year: not waited for",
        "it ends soon: waited for",
        "a graceful period as long as a place is held",
        "a longer one",
        "the scheduler is about to delete it for another pod",
        "an eviction is under way",
        "its ReplicaSet makes another anywhere",
        "a DaemonSet's comes back to the node",
        "a kind of that name only",
    ],
)
async def test_which_pod_is_spared(changed: dict[str, Any], victims: list[str]) -> None:
    leader = PreemptingLeader(one_node(), high())
    change(leader, "default/a", **changed)
    await leader.round()
    assert leader.api.evicted == victims


async def test_a_member_on_a_node_that_does_not_exist_protects_no_other() -> None:
    leader = PreemptingLeader(one_node(), high())
    own = leader.api.pods["default/a"]["metadata"]["annotations"]
    annotations = {**own, POD_GROUP_NAME: "g", MIN_MEMBER: "2"}
    change(leader, "default/a", metadata={"annotations": annotations})
    leader.api.has(Holder("ghost", "nowhere", 1, 0, numa=0, gang="g", minimum=2).raw())
    await leader.round()
    assert leader.api.evicted == ["default/a"]


async def test_a_gang_does_not_end_its_own_running_member() -> None:
    # n0 ── NUMA 0 [0 of 8: g-0, priority 0]  NUMA 1 [0 of 8: x, priority 200]
    g0 = Holder("g-0", "n0", 8, 0, numa=0, gang="g", minimum=2)
    leader = PreemptingLeader(FullCluster(("n0",), (g0, Holder("x", "n0", 8, 200, numa=1))), member(1, 2))
    searched = leader.searches()
    await leader.round()
    assert leader.api.evicted == []
    ((preemptor, found),) = searched
    assert not isinstance(found.victims, Victims)
    assert not leader.preemption._search.still_holds(preemptor, {"default/g-0": "g-0"}, ())


# n0 ── NUMA 0 [0 of 8: a, priority 0]  NUMA 1 [0 of 8, stays]; n1 likewise with c


def two_halves() -> FullCluster:
    pods = (
        *(Holder(name, node, 8, 0, numa=0) for name, node in (("a", "n0"), ("c", "n1"))),
        *(Holder(f"stays-{node}", node, 8, 5000, numa=1) for node in ("n0", "n1")),
    )
    return FullCluster(("n0", "n1"), pods)


async def test_a_pod_with_a_place_of_its_own_does_not_take_that_of_a_lower_priority() -> None:
    leader = await begun(two_halves(), high("higher", priority=1000), high("lower", second=1))
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
    leader = await begun(one_node(), high("x"))
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
