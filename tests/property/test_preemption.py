"""The victims of a single pod, compared with all sets of pods of small random clusters."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.pods import SINGLE
from tests.property.preemptors import FullCluster, preemptor, random_cluster
from webhook.engine.decide import decide
from webhook.engine.freeing import LARGEST_EXACT
from webhook.engine.preemption import single_pod as module
from webhook.engine.preemption.candidates import Candidates, Cost, NoVictims, Victims
from webhook.engine.preemption.single_pod import victims_for_pod
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options
from webhook.placing.node_holdings import Holdings
from webhook.placing.preemption.preemption_candidates import candidates_below


def fits(cluster: FullCluster, raw: Mapping[str, Any], ended: tuple[str, ...] | frozenset[str], on: str = "") -> bool:
    """Whether the pod fits without these; on: on this node."""
    pod = Pod.from_object(raw)
    snapshot = cluster.cache(tuple(ended)).snapshot().nodes
    found = decide(snapshot, pod, parse_numa_intent(pod.annotations)[0], Options())
    return bool(found.fits[snapshot.node_arrays.index[on]]) if on else found.fit_count > 0


def found_in(cluster: FullCluster, raw: Mapping[str, Any]) -> tuple[Victims | NoVictims, Candidates]:
    pod = Pod.from_object(raw)
    cache = cluster.cache()
    candidates = candidates_below(cache, pod.priority)
    intent = parse_numa_intent(pod.annotations)[0]
    holdings = Holdings(cache)
    return victims_for_pod(cache.snapshot().nodes, pod, intent, Options(), candidates, holdings.on), candidates


def every_cost(cluster: FullCluster, raw: Mapping[str, Any], candidates: Candidates) -> Iterator[Cost]:
    """The costs of all sets on one node whose end, with that of the gangs that they break, lets the pod run there."""
    for name in cluster.nodes:
        keys = [pod.key for pod in candidates.by_node.get(name, ())]
        wholes = {
            whole
            for size in range(1, len(keys) + 1)
            for chosen in combinations(keys, size)
            if (whole := candidates.whole(chosen)) is not None
        }
        yield from (candidates.cost(whole, name) for whole in wholes if fits(cluster, raw, whole, name))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_set_of_pods_is_cheaper_than_the_victims(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    cluster = random_cluster(random, nodes=2)
    raw = preemptor(cpus=random.randint(4, 8), priority=50, numa=SINGLE)
    if fits(cluster, raw, ()):
        return
    found, candidates = found_in(cluster, raw)
    costs = sorted(every_cost(cluster, raw, candidates))
    if isinstance(found, NoVictims):
        assert not costs
        return
    assert fits(cluster, raw, found.pods, found.nodes[0])
    (node,) = found.nodes
    cost = candidates.cost(frozenset(found.pods), node)
    assert (cost.violations, cost.highest) == (found.violations, found.highest)
    if len(costs[0].names) <= LARGEST_EXACT:
        assert cost == costs[0]
    else:
        assert cost[:2] == costs[0][:2]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_none_of_the_greedy_victims_can_stay(seed: int) -> None:
    random = Random(1_000 + seed)  # noqa: S311 - reproducible, not secret
    cluster = random_cluster(random, nodes=2, with_gangs=False)
    raw = preemptor(cpus=random.randint(4, 8), priority=50, numa=SINGLE)
    if fits(cluster, raw, ()):
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MOST_TRIALS", 0)
        found, _ = found_in(cluster, raw)
    if isinstance(found, NoVictims):
        return
    assert fits(cluster, raw, found.pods, found.nodes[0])
    assert not any(fits(cluster, raw, less, found.nodes[0]) for less in combinations(found.pods, len(found.pods) - 1))
