"""A single pod is placed on a held node if it certainly leaves the preemptor its room, and else waits."""

from dataclasses import replace
from random import Random

import pytest

from tests.builders.pods import SINGLE
from tests.property.preemptors import CPUS, Cluster, Placed, preemptor
from tests.unit.controllers.preemption.leader import begun, high, member
from webhook.engine.decide import decide
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options


def half_full() -> Cluster:
    """n0 ── NUMA 0 [0 of 8: a]  NUMA 1 [4 of 8: b, which stays]."""
    return Cluster(("n0",), (Placed("a", "n0", 8, 0, numa=0), Placed("b", "n0", 4, 500, numa=1)))


def split() -> Cluster:
    """n0 ── NUMA 0 [3 of 8: a]  NUMA 1 [3 of 8: b, which stays]."""
    return Cluster(("n0",), (Placed("a", "n0", 5, 0, numa=0), Placed("b", "n0", 5, 500, numa=1)))


async def test_it_is_placed_while_the_victim_ends_if_the_sums_have_room_for_both() -> None:
    leader = await begun(split(), high("x", cpu=5))
    assert leader.holds == {"pod x": {"n0"}}
    leader.api.has(high("small", cpu=1, second=1))
    await leader.round()
    assert leader.nodes()["small"] == "n0"
    leader.end("default/a")
    await leader.round()
    assert leader.holds == {"pod x": {"n0"}}, "the other pod has to be bound first"


async def test_it_waits_while_the_scheduler_would_not_bind_it() -> None:
    leader = await begun(half_full(), high("x", cpu=6))
    assert leader.api.evicted == ["default/a"]
    leader.api.has(high("small", cpu=2, second=1, priority=1))
    await leader.round()
    assert "small" in leader.waiting(), "4 CPUs are free in sum, and x is nominated for 6"
    leader.end("default/a", shown=False)
    await leader.round()
    assert leader.waiting() == {"x", "small"}, "what the victim left is not known yet"
    leader.show_nodes()
    await leader.round()
    assert leader.waiting() == {"small"}


async def test_it_waits_if_its_kubelet_could_give_it_the_room_that_is_held() -> None:
    # Both fit by their amounts: y on NUMA 1 now, x on NUMA 0 then. Its kubelet may take NUMA 0 for y.
    cluster = Cluster(("n0",), (Placed("a", "n0", 4, 0, numa=0), Placed("b", "n0", 4, 500, numa=1)))
    leader = await begun(cluster, high("x", cpu=6))
    assert leader.api.evicted == ["default/a"]
    leader.api.has(high("y", cpu=3, second=1, priority=1), high("z", cpu=2, second=2, priority=1))
    await leader.round()
    assert leader.waiting() == {"x", "y"}


async def test_a_second_pod_waits_until_the_exporter_has_reported_the_first() -> None:
    cluster = Cluster(("n0",), (Placed("a", "n0", 5, 0, numa=0), Placed("b", "n0", 4, 500, numa=1)))
    leader = await begun(cluster, high("x", cpu=5))
    leader.api.has(high("s0", cpu=1, second=1), high("s1", cpu=1, second=2))
    await leader.round()
    assert leader.waiting() == {"x", "s1"}


async def test_a_gang_is_not_placed_on_a_held_node() -> None:
    leader = await begun(split(), high("x", cpu=5))
    leader.api.has(member(0, 1, cpu=1))
    await leader.round()
    assert "g-0" in leader.waiting()


# Seeds with which the small pod is placed at once: of most random nodes, the sums have no room for both.
@pytest.mark.parametrize("seed", [3, 27, 132, 220, 247, 286, 355, 396, 400, 420])
async def test_whatever_numa_node_it_gets_the_preemptor_fits_once_its_victims_are_gone(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    pods: list[Placed] = []
    for numa in (0, 1):
        free = CPUS
        while (cpus := random.randint(1, 4)) <= free and random.random() < 0.75:
            free -= cpus
            pods.append(Placed(f"p{len(pods)}", "n0", cpus, random.choice((0, 500)), numa=numa))
    cluster = Cluster(("n0",), tuple(pods))
    x, small = random.randint(4, 8), 1
    leader = await begun(cluster, high("x", cpu=x))
    assert leader.api.evicted
    leader.ended |= set(leader.api.evicted)
    leader.api.has(high("small", cpu=small, second=1, priority=1))
    await leader.round()
    assert "small" not in leader.waiting()
    left = tuple(pod for pod in cluster.pods if pod.key not in leader.ended)
    for numa in (0, 1):
        if sum(pod.cpus for pod in left if pod.numa == numa) + small > CPUS:
            continue
        after = replace(cluster, pods=(*left, Placed("small", "n0", small, 1, numa=numa)))
        pod = Pod.from_object(preemptor(cpus=x, priority=100, numa=SINGLE))
        found = decide(after.cache().snapshot().nodes, pod, parse_numa_intent(pod.annotations)[0], Options())
        assert found.fit_count == 1
