"""Who gets room on a held node while its preemptor is left out of a cycle."""

from tests.property.preemptors import Cluster, Placed
from tests.unit.controllers.preemption.leader import PreemptingLeader, high, one_node
from webhook.kube.write import Outcome, Write


def one_numa_node_counts() -> Cluster:
    """n0 ── NUMA 0 [4 of 8: a]  NUMA 1 [0 of 8: b, which stays]."""
    return Cluster(("n0",), (Placed("a", "n0", 4, 0, numa=0), Placed("b", "n0", 8, 500, numa=1)))


async def test_the_next_leader_keeps_the_place_from_an_older_pod_of_the_same_priority() -> None:
    leader = PreemptingLeader(one_numa_node_counts(), high("x", cpu=8, second=5))
    await leader.round()
    assert leader.api.evicted == ["default/a"]
    leader.api.has(high("old", cpu=3, second=1))
    await leader.round()
    assert leader.waiting() == {"x", "old"}
    successor = leader.replaced_by()
    await successor.round()
    assert successor.waiting() == {"x", "old"}


async def test_the_place_is_kept_after_the_api_server_refused_to_place_the_preemptor_there() -> None:
    leader = PreemptingLeader(one_numa_node_counts(), high("x", cpu=8, second=5))
    await leader.round()
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


async def test_two_pods_that_are_nominated_on_one_node_do_not_wait_for_each_other() -> None:
    leader = PreemptingLeader(one_node(), high("x"))
    await leader.round()
    assert leader.holds == {"pod x": {"n0"}}
    leader.api.has({**high("y", second=1), "status": {"nominatedNodeName": "n0"}})
    await leader.round()
    assert leader.holds == {"pod x": {"n0"}}, "what ends there ends for x"
    leader.end(*leader.api.evicted)
    await leader.round()
    assert leader.nodes()["x"] == "n0"


async def test_nor_do_they_for_the_next_leader() -> None:
    leader = PreemptingLeader(one_node(), high("x"))
    await leader.round()
    leader.api.has({**high("y", second=1), "status": {"nominatedNodeName": "n0"}})
    successor = leader.replaced_by()
    await successor.round()
    assert successor.holds == {"pod x": {"n0"}}
