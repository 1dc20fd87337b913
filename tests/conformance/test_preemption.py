"""Victims of single pods beside those of kube-scheduler's own code, where only sums count."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.conformance.preemption.cases import golden
from tests.property.preemptors import FullCluster, Holder, preemptor
from webhook.engine.preemption.candidates import NoVictims
from webhook.engine.preemption.single_pod import victims_for_pod
from webhook.formats.koordinator.intent import NO_INTENT
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options
from webhook.placing.node_holdings import Holdings
from webhook.placing.preemption.preemption_candidates import candidates_below


def cluster_of(case: Mapping[str, Any]) -> FullCluster:
    pods = tuple(
        Holder(pod["name"], pod["node"], pod["cpu"], pod["priority"], app=pod["app"], start=pod["start"])
        for pod in case["pods"]
    )
    return FullCluster(tuple(node["name"] for node in case["nodes"]), pods, case["budgets"], has_numa=False)


def compare(case: Mapping[str, Any]) -> bool:
    """Check one case; returns whether our victims cost less."""
    cache = cluster_of(case).cache()
    pod = Pod.from_object(preemptor(cpus=case["pod"]["cpu"], priority=case["pod"]["priority"], numa=None))
    candidates = candidates_below(cache, pod.priority)
    ours = victims_for_pod(cache.snapshot().nodes, pod, NO_INTENT, Options(), candidates, Holdings(cache).on)
    theirs = case["expect"]
    if isinstance(ours, NoVictims):
        assert ours.certain
        assert not theirs["node"]
        return False
    assert theirs["node"]
    keys = frozenset(f"default/{name}" for name in theirs["victims"])
    their_cost, our_cost = candidates.cost(keys, theirs["node"]), candidates.cost(frozenset(ours.pods), ours.nodes[0])
    assert their_cost.violations <= theirs["violations"]
    assert all(our <= their for our, their in zip(our_cost[:3], their_cost[:3], strict=True))
    return our_cost[:3] < their_cost[:3]


def compare_all(cases: Sequence[Mapping[str, Any]]) -> int:
    """Check the cases; returns in how many of them our victims cost less."""
    return sum(map(compare, cases))


def test_victims_never_cost_more_than_kube_schedulers() -> None:
    assert compare_all(golden()[::10]) > 0


@pytest.mark.long
def test_victims_of_all_cases_never_cost_more_than_kube_schedulers() -> None:
    cases = golden()
    assert len(cases) == 1_000
    assert compare_all(cases) > 0
