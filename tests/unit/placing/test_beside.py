"""A pod that has room beside another preemptor ends no pods of its own."""

from tests.property.preemptors import Holder
from tests.unit.controllers.preemption.leader import PreemptingLeader, begun, high, member, one_node, two_nodes


async def test_two_pods_that_share_a_numa_node_end_one_pod() -> None:
    leader = await begun(one_node(), high("x", cpu=4), high("y", cpu=4, second=1))
    assert leader.api.evicted == ["default/a"]
    assert leader.holds == {"pod x": {"n0"}}
    assert leader.text("y") == (
        "waiting: lower-priority pods on node n0 are preempted for another pod, which makes room for both"
    )
    leader.end("default/a")
    for _ in range(3):
        await leader.round()
    assert {"x", "y"} <= leader.nodes().keys()
    assert leader.api.evicted == ["default/a"]


async def test_a_third_pod_without_room_there_has_a_victim_of_its_own_elsewhere() -> None:
    waiting = [high(f"x{number}", cpu=4, second=number) for number in range(3)]
    leader = await begun(two_nodes(), *waiting)
    assert len(leader.api.evicted) == 2
    assert set().union(*leader.holds.values()) == {"n0", "n1"}
    leader.end(*leader.api.evicted)
    for _ in range(3):
        await leader.round()
    assert {"x0", "x1", "x2"} <= leader.nodes().keys()


async def test_a_pod_that_comes_before_the_exporter_shows_that_the_victim_has_ended_waits_for_the_same_room() -> None:
    leader = await begun(one_node(), high("x", cpu=4))
    leader.end("default/a", shown=False)
    leader.api.has(high("y", cpu=4, second=1), high("z", cpu=4, second=2))
    await leader.round()
    assert "which makes room for both" in leader.text("y")
    assert "which makes room for both" not in leader.text("z"), "x and y take all that a left"
    leader.show_nodes()
    await leader.round()
    await leader.round()
    assert leader.nodes().keys() & {"x", "y", "z"} == {"x", "y"}
    assert leader.api.evicted == ["default/a"]


async def test_room_that_is_shown_counts_once_and_a_namesake_of_a_victim_is_another_pod() -> None:
    leader = await begun(one_node(), high("x", cpu=4))
    leader.end("default/a")
    assert leader.controller.planner.preemptors.unshown.holdings().unshown == {}
    leader = await begun(one_node(), high("x", cpu=4))
    leader.end("default/a", shown=False)
    leader.api.has(Holder("a", "n0", cpus=3, priority=10, numa=0, fields={"uid": "another"}).raw())
    holdings = leader.controller.planner.preemptors.unshown.holdings()
    (left,) = (pod for pod in holdings.on("n0").pods if pod.key == holdings.unshown["n0"])
    assert left.numa[0]["cpu"] == 5000, "of 8, it holds 3"


async def test_without_room_beside_it_the_other_waits_for_the_held_node() -> None:
    leader = await begun(one_node(), high("x", cpu=8), high("y", cpu=4, second=1))
    assert leader.api.evicted == ["default/a"]
    assert "room for both" not in leader.text("y"), "x takes the whole NUMA node"


async def test_a_pod_of_higher_priority_does_not_wait_for_one_of_lower_priority() -> None:
    leader = await begun(one_node(), high("x", cpu=4))
    leader.api.has(high("higher", cpu=4, priority=1000))
    leader.controller.planner.preemptors._delays._clock = lambda: 1e9  # nothing is put off
    await leader.round()
    leader.end("default/a")
    await leader.round()
    assert leader.nodes()["higher"] == "n0"
    assert leader.api.evicted == ["default/a"]


async def test_when_the_first_is_gone_the_other_gets_the_room() -> None:
    leader = await begun(one_node(), high("x", cpu=4), high("y", cpu=4, second=1))
    leader.api.delete("default/x")
    leader.controller.planner.preemptors._delays._clock = lambda: 1e9  # nothing is put off
    await leader.round()
    assert "room for both" not in leader.text("y")
    leader.end("default/a")
    await leader.round()
    assert "y" in leader.nodes()
    assert leader.api.evicted == ["default/a"]


async def test_there_is_room_beside_a_gang() -> None:
    leader = PreemptingLeader(
        one_node(), *(member(number, 2, cpu=6) for number in range(2)), high("y", cpu=2, priority=50)
    )
    await leader.round()
    assert sorted(leader.api.evicted) == ["default/a", "default/b"]
    assert "room for both" in leader.text("y")


async def test_a_pod_has_room_beside_one_that_was_placed_a_moment_ago() -> None:
    leader = await begun(two_nodes(), high("x", cpu=4))
    leader.end(*leader.api.evicted)
    await leader.cycle()
    assert "x" in leader.nodes()
    leader.api.has(high("y", cpu=4))
    await leader.cycle()
    # The hold of x has not been looked at since.
    assert leader.holds
    await leader.preemption.choose()
    await leader.preemption.settle()
    assert len(leader.api.evicted) == 1
