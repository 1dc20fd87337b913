"""A pod that is created after another of its controller was rejected avoids that node."""

from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, machine
from tests.builders.pods import bound, pod
from webhook.admission.pod.mutation import mutate_pod
from webhook.formats.kubernetes.timestamps import utc
from webhook.placing.pod.decision import PodDecision, RecentDecisions, Verdict
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

NOW = 1_000_000
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
FAILED = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "startTime": utc(NOW)}
UNGATED = Rules(gate="Never")


def cluster(*names: str) -> ClusterCache:
    """Machines of one NUMA node with 8 free cpus."""
    cache = cluster_cache(*(one for name in names for one in machine(name=name, free=(8,))))
    cache.avoided._clock = lambda: float(NOW)
    return cache


def rejected(cache: ClusterCache, node: str = "n0") -> None:
    raw = bound(name="first", node=node, status=FAILED, metadata={"ownerReferences": [OWNER]})
    cache.failed_pods.upsert("default/first", raw)


def create(
    cache: ClusterCache, rules: Rules = UNGATED, recent: RecentDecisions | None = None, **how: Any
) -> PodDecision:
    raw = pod(metadata={"ownerReferences": [{**OWNER, **how}]})
    return mutate_pod(raw, cache.snapshot(), rules, recent=recent)


def test_its_affinity_leaves_the_node_out_and_its_text_says_why() -> None:
    cache = cluster("n0", "n1")
    rejected(cache)
    decided = create(cache)
    assert decided.fit_count == 1
    assert "n0" not in repr(decided.constraint.alternatives)
    assert f"1 avoided after a rejection (n0: UnexpectedAdmissionError at {utc(NOW)})" in decided.message
    assert create(cache, uid="another").fit_count == 2


@pytest.mark.parametrize("gate", ["Always", "WhenNeeded"])
def test_a_pod_that_only_the_avoided_node_fits_waits_behind_the_gate(gate: Any) -> None:
    cache = cluster("n0")
    rejected(cache)
    decided = create(cache, Rules(gate=gate))
    assert (decided.verdict, decided.gated) == (Verdict.WAIT, True)
    assert "1 node would fit but is avoided for now" in decided.message


def test_without_a_gate_it_may_still_get_the_node_later() -> None:
    cache = cluster("n0", "n1")
    rejected(cache)
    full = bound(name="full", node="n1")
    cache.pods.upsert("default/full", full)
    decided = create(cache, UNGATED)
    assert decided.verdict is Verdict.WAIT
    assert decided.constraint.alternatives == ()


def test_the_decision_on_an_equal_pod_is_not_reused_across_a_rejection() -> None:
    cache, recent = cluster("n0", "n1"), RecentDecisions()
    assert create(cache, recent=recent).fit_count == 2
    rejected(cache)
    assert create(cache, recent=recent).fit_count == 1
