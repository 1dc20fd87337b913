"""Who gets room on a held node while its preemptor is left out of a cycle."""

from tests.property.preemptors import Cluster, Placed
from tests.unit.controllers.preemption.leader import PreemptingLeader, high
from webhook.kube.pod_writes import Outcome


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
