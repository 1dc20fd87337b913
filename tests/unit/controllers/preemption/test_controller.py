"""The leader ends pods for those that wait, and holds their place."""

from dataclasses import replace
from typing import Any

from tests.unit.controllers.preemption.leader import PreemptingLeader, high, member, one_node, two_nodes
from webhook.kube.write import Outcome, Write

# n0 ── NUMA 0 [0 of 8: a, priority 0]  NUMA 1 [0 of 8: b, priority 10]


async def test_the_pod_of_the_lowest_priority_is_evicted_and_told_why() -> None:
    leader = PreemptingLeader(one_node(), high())
    await leader.round()
    assert leader.api.evicted == ["default/a"]
    assert leader.api.conditions == [("default/a", "True", "PreemptionByTopologyWebhook")]
    assert {("default/high", "Preempting"), ("default/a", "Preempted")} <= set(leader.api.told())
    assert leader.holds == {"pod high": {"n0"}}
    assert leader.api.pods["default/high"]["status"]["nominatedNodeName"] == "n0"


async def test_the_waiting_pod_says_what_it_waits_for() -> None:
    leader = PreemptingLeader(one_node(), high())
    await leader.round()
    assert leader.text("high") == "waiting: 1 lower-priority pod on node n0 must terminate first"
    leader.end("default/a", shown=False)
    await leader.round()
    assert "the room on node n0 is reserved for it" in leader.text("high")


async def test_no_second_pod_is_chosen_while_the_first_ends_or_its_room_is_not_shown_yet() -> None:
    leader = PreemptingLeader(one_node(), high())
    await leader.round()
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


async def test_a_pod_of_the_same_priority_does_not_get_the_place() -> None:
    leader = PreemptingLeader(one_node(), high())
    await leader.round()
    leader.api.has(high("rival", metadata={"creationTimestamp": "2020-01-01T00:00:00Z"}))
    leader.controller.planner.preemptors._delays._clock = lambda: 1e9  # nothing is put off
    await leader.round()
    assert leader.api.evicted == ["default/a"], "the node is held as a whole"
    leader.end("default/a")
    await leader.round()
    assert leader.nodes()["high"] == "n0"
    assert leader.waiting() == {"rival"}


async def test_a_pod_of_higher_priority_gets_it() -> None:
    leader = PreemptingLeader(one_node(), high())
    await leader.round()
    leader.api.has(high("higher", priority=1000))
    leader.end("default/a")
    await leader.round()
    assert leader.nodes()["higher"] == "n0"


async def test_preemption_policy_never_is_respected() -> None:
    leader = PreemptingLeader(one_node(), high(preemptionPolicy="Never"))
    await leader.round()
    assert leader.api.evicted == []


async def test_a_pod_whose_node_only_the_scheduler_can_choose_preempts_none() -> None:
    leader = PreemptingLeader(one_node(), high(topologySpreadConstraints=[{"maxSkew": 1}]))
    await leader.round()
    assert leader.api.evicted == []


async def test_pods_of_the_same_priority_do_not_end() -> None:
    leader = PreemptingLeader(one_node(), high(priority=0))
    await leader.round()
    assert leader.api.evicted == []
    assert leader.holds == {}


async def test_a_pod_against_a_budget_is_deleted_as_the_last_resort() -> None:
    pods = tuple(replace(pod, app="web") for pod in one_node().pods)
    leader = PreemptingLeader(replace(one_node(), pods=pods, allowed={"web": 0}), high())
    await leader.round()
    assert (leader.api.evicted, leader.api.deleted) == ([], ["default/a"])
    (preempting,) = (event.note for event in leader.api.events if event.reason == "Preempting")
    assert preempting.endswith("1 of them against a PodDisruptionBudget")


async def test_a_pod_that_no_budget_keeps_goes_first_even_at_a_higher_priority() -> None:
    a, b = one_node().pods
    leader = PreemptingLeader(replace(one_node(), pods=(replace(a, app="web"), b), allowed={"web": 0}), high())
    await leader.round()
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
    leader = PreemptingLeader(one_node(), high())
    await leader.round()
    leader.cache._clock = lambda: 4e9  # long after its graceful period
    await leader.round()
    assert leader.holds == {}
    assert leader.api.pods["default/high"]["status"]["nominatedNodeName"] is None
    assert leader.api.evicted == ["default/a"]


async def test_room_that_is_never_shown_is_not_held_longer_than_an_exporter_takes() -> None:
    leader = PreemptingLeader(one_node(), high())
    await leader.round()
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
    leader = PreemptingLeader(one_node(), high())
    await leader.round()
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
    searched: list[str] = []
    run = leader.preemption._search.run

    def counted(preemptor: Any, closed: Any) -> Any:
        searched.append(preemptor.name)
        return run(preemptor, closed)

    leader.preemption._search.run = counted  # type: ignore[method-assign,assignment]
    for _ in range(5):
        await leader.round()
    assert leader.api.evicted == ["default/a"]
    assert len(searched) <= 3


# n0, n1 ── NUMA 0 [0 of 8], NUMA 1 [0 of 8]; a gang needs all four


async def test_a_gang_frees_its_place_and_starts_whole() -> None:
    leader = PreemptingLeader(two_nodes(), *(member(number) for number in range(4)))
    await leader.round()
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


async def test_no_pod_ends_for_a_gang_that_would_not_start_whole() -> None:
    leader = PreemptingLeader(two_nodes(), *(member(number, 5) for number in range(5)))
    await leader.round()
    assert leader.api.evicted == []


async def test_no_pod_ends_for_a_gang_that_is_not_complete() -> None:
    leader = PreemptingLeader(two_nodes(), *(member(number) for number in range(3)))
    await leader.round()
    assert leader.api.evicted == []


async def test_a_gang_preempts_with_the_priority_of_its_lowest_member() -> None:
    members = [member(number, priority=0 if number == 3 else 100) for number in range(4)]
    leader = PreemptingLeader(two_nodes(), *members)
    await leader.round()
    assert leader.api.evicted == []
