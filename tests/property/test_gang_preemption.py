"""The victims of a gang, compared with all sets of pods of small random clusters.

zone-a ─┬─ rack-1 ── n0 n1        [2 NUMA nodes of 8 CPUs each]
        └─ rack-2 ── n2 n3
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.gangs import LEVELS, RACK, TOPOLOGY, podset
from tests.builders.pods import SINGLE
from tests.builders.topologies import topology
from tests.property.preemptors import FullCluster, preemptor, random_cluster
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Constraint, Gang
from webhook.engine.preemption.candidates import Candidates, Cost, NoVictims, Victims
from webhook.engine.preemption.freed_cluster import FreedCluster
from webhook.engine.preemption.gang import SumBound, victims_for_gang
from webhook.engine.request import named_resources
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.placing.node_holdings import Holdings
from webhook.placing.preemption.preemption_candidates import candidates_below

RACKS = {"n0": "rack-1", "n1": "rack-1", "n2": "rack-2", "n3": "rack-2"}


def racked(random: Random) -> FullCluster:
    labels = {name: dict(zip(LEVELS, ("zone-a", rack), strict=True)) for name, rack in RACKS.items()}
    cluster = random_cluster(random, nodes=4)
    return replace(cluster, labels=labels, topology=topology(labels=LEVELS))


def gang_of(cpus: int, count: int) -> Gang:
    raw = preemptor(cpus=cpus, priority=50, numa=SINGLE)
    pod = Pod.from_object(raw)
    pods = replace(podset(name="workers", of=pod, count=count), intent=parse_numa_intent(pod.annotations)[0])
    return Gang("gang", Constraint(required=RACK), (pods,))


def fits(cluster: FullCluster, gang: Gang, ended: Iterable[str]) -> bool:
    snapshot = cluster.cache(tuple(ended)).snapshot().nodes
    return assign_gang(snapshot, TopologyTrees().tree(TOPOLOGY, snapshot.node_arrays), gang).assigned


def found_in(cluster: FullCluster, gang: Gang) -> tuple[Victims | NoVictims, Candidates]:
    cache = cluster.cache()
    snapshot = cache.snapshot().nodes
    tree = TopologyTrees().tree(TOPOLOGY, snapshot.node_arrays)
    candidates = candidates_below(cache, 50)
    assign = partial(assign_gang, tree=tree, gang=gang)
    return victims_for_gang(snapshot, gang, assign, tree, candidates, Holdings(cache).on), candidates


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_gang_starts_whole_without_its_victims_and_none_of_them_ends_in_vain(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    cluster, gang = racked(random), gang_of(cpus=random.randint(5, 8), count=random.randint(2, 3))
    if fits(cluster, gang, ()):
        return
    found, candidates = found_in(cluster, gang)
    everything = candidates.most(candidates.pods)
    if isinstance(found, NoVictims):
        assert not fits(cluster, gang, everything)
        return
    assert fits(cluster, gang, found.pods)
    assert {RACKS[name] for name in found.nodes} in ({"rack-1"}, {"rack-2"})
    for key in found.pods:
        fewer = candidates.whole(set(found.pods) - {key})
        assert fewer is not None
        assert fewer >= set(found.pods) or not fits(cluster, gang, fewer)
    # No set spares all pods of the highest priority, and all budgets: this one, the largest, may violate some together.
    milder = [key for key in everything if candidates.pods[key].priority < (found.highest or 0)]
    sparing = candidates.sparing().up_to(max((candidates.pods[key].priority for key in milder), default=-1))
    largest = sparing.most(sparing.pods)
    if found.violations == 0 and not candidates.violating(largest):
        assert not fits(cluster, gang, largest)


@pytest.mark.parametrize("seed", range(4))
def test_a_gang_of_two_has_about_as_few_victims_as_possible(seed: int) -> None:
    random = Random(100 + seed)  # noqa: S311 - reproducible, not secret
    cluster, gang = racked(random), gang_of(cpus=8, count=2)
    cluster = replace(cluster, allowed={}, pods=tuple(replace(pod, gang="", priority=0) for pod in cluster.pods))
    if fits(cluster, gang, ()):
        return
    found, candidates = found_in(cluster, gang)
    assert isinstance(found, Victims)
    # One more than necessary is allowed, because the search is greedy. In a few clusters of a hundred it is more.
    fewer = min(len(found.pods) - 2, 2)
    assert not any(fits(cluster, gang, chosen) for chosen in combinations(candidates.pods, max(fewer, 0)))


def cheapest(cluster: FullCluster, gang: Gang, candidates: Candidates) -> Cost | None:
    """The cost of the cheapest set of pods without which the gang fits, of all sets; None if there is none."""
    snapshot = cluster.cache().snapshot().nodes
    tree = TopologyTrees().tree(TOPOLOGY, snapshot.node_arrays)
    freed = FreedCluster(snapshot, named_resources(gang.all_sets()[0].pod), Holdings(cluster.cache()).on)
    wholes: set[frozenset[str]] = set()
    for rack in ("rack-1", "rack-2"):
        keys = [key for key, pod in candidates.pods.items() if RACKS[pod.node] == rack]
        sets = (chosen for size in range(1, len(keys) + 1) for chosen in combinations(keys, size))
        wholes |= {whole for chosen in sets if (whole := candidates.whole(chosen)) is not None}
    for cost in sorted(candidates.cost(whole, "") for whole in wholes):
        ended: dict[str, list[str]] = {}
        for key in cost.names:
            ended.setdefault(candidates.pods[key].node, []).append(key)
        if assign_gang(freed.without(ended), tree, gang).assigned:
            return cost
    return None


# Gangs that must not break hide the only sets, and a higher priority spares a budget.
@pytest.mark.parametrize("seed", [0, 20, 39, 46, 47, 55, 70, 87, 93, 112])
def test_no_set_of_pods_is_cheaper_than_the_victims_of_a_gang(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    cluster, gang = racked(random), gang_of(cpus=random.randint(3, 8), count=random.randint(2, 4))
    found, candidates = found_in(cluster, gang)
    assert isinstance(found, Victims)
    best = cheapest(cluster, gang, candidates)
    assert best is not None
    assert candidates.cost(frozenset(found.pods), "")[:3] == best[:3]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_sums_refuse_no_set_without_which_the_gang_fits(seed: int) -> None:
    random = Random(200 + seed)  # noqa: S311 - reproducible, not secret
    cluster, gang = racked(random), gang_of(cpus=random.randint(3, 8), count=random.randint(2, 3))
    cache = cluster.cache()
    candidates = candidates_below(cache, 1_000)
    bound = SumBound(cache.snapshot().nodes, gang, candidates)
    for _ in range(12):
        gone = frozenset(random.sample(sorted(candidates.pods), random.randint(0, len(candidates.pods))))
        if bound.refuses(gone, None):
            assert not fits(cluster, gang, gone)
