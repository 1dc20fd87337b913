"""Equal pods share a decision, and each gets what one of its own would find."""

import json
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from webhook.engine.decide import Options, decide
from webhook.placing.planner import Cycle, Limits, Planner
from webhook.placing.pod.equal_pods import EqualPods
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.rules import Rules

# a ── NUMA [16 16]   b ── [16 9]   c ── [7 16], restricted   d ── [16 16], best-effort   e ── [3 3]       [free cpus]
FREE = {"a": (16, 16), "b": (16, 9), "c": (7, 16), "d": (16, 16), "e": (3, 3)}
POLICIES = {"c": "restricted", "d": "best-effort"}
LIMITS = Limits(assume_ttl=60.0)


class Cluster:
    """The nodes above with pods that wait. All exist before the first is placed."""

    def __init__(self, rules: Rules, *pods: dict[str, Any]) -> None:
        self.cache = cluster_cache(
            *(node(name=name, cpus=32) for name in FREE),
            *(nrt(node=name, free=free, policy=POLICIES.get(name, "single-numa-node")) for name, free in FREE.items()),
            *pods,
        )
        self.planner = Planner(self.cache, rules, LIMITS)
        self.cycle: Cycle = self.planner.begin()

    def place(self, name: str) -> str:
        """What the pod gets; empty: nothing."""
        gated_pod = GatedPod.from_object(self.cache.gated_pods()[f"default/{name}"])
        attempt = self.planner.attempt_pod(gated_pod, self.cycle)
        return "".join(f"{one.allocation.to_json()} {one.text} {one.chosen}" for _, one, _ in attempt.assumed)


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods for which all nodes are decided on."""
    names: list[str] = []

    def noted(nodes: Any, pod: Any, *others: Any) -> Any:
        names.append(pod.name)
        return decide(nodes, pod, *others)

    monkeypatch.setattr("webhook.placing.planner.decide", noted)
    return names


@pytest.mark.parametrize("strategy", ["Packing", "LeastAllocated", "MostAllocated"])
@pytest.mark.parametrize("policy", ["SingleNUMANode", "Restricted", "BestEffort", ""])
@pytest.mark.parametrize("cpu", [3, 5, 10])
def test_each_pod_gets_what_a_decision_of_its_own_would_find(
    monkeypatch: pytest.MonkeyPatch, strategy: Any, policy: str, cpu: int
) -> None:
    rules, names = Rules(engine=Options(score_strategy=strategy)), [f"p{number:02}" for number in range(40)]
    numa = json.dumps({"numaTopologyPolicy": policy})
    pods = [gated(name=name, cpu=cpu, numa=numa) for name in names]
    sharing, alone = Cluster(rules, *pods), Cluster(rules, *pods)
    shared = list(map(sharing.place, names))
    monkeypatch.setattr(EqualPods, "decision", lambda *_: None)
    assert list(map(alone.place, names)) == shared
    assert shared[0]
    assert not shared[-1]


def test_one_decision_on_all_nodes_is_enough_for_equal_pods(decided: list[str]) -> None:
    cluster = Cluster(Rules(), *(gated(name=f"p{number}", cpu=5) for number in range(8)))
    assert all(cluster.place(f"p{number}") for number in range(8))
    assert decided == ["p0"]


def test_another_kind_of_pod_needs_a_decision_of_its_own(decided: list[str]) -> None:
    cluster = Cluster(Rules(), *(gated(name=f"p{number}", cpu=5 + number // 2) for number in range(4)))
    assert all(cluster.place(f"p{number}") for number in range(4))
    assert decided == ["p0", "p2"]


def test_a_change_of_the_cluster_ends_what_pods_share(decided: list[str]) -> None:
    cluster = Cluster(Rules(), *(gated(name=f"p{number}", cpu=5) for number in range(3)))
    assert '"a"' in cluster.place("p0")
    put(cluster.cache, node(name="a", cpus=32, unschedulable=True))
    cluster.planner.changed()  # as the controller does whenever the cache has changed
    assert '"b"' in cluster.place("p1")
    assert decided == ["p0", "p1"]


def test_a_reservation_by_others_ends_what_pods_share(decided: list[str]) -> None:
    cluster = Cluster(Rules(), *(gated(name=f"p{number}", cpu=5) for number in range(3)))
    cluster.place("p0")
    (assumed_pod,) = cluster.cache.assumed_pods()
    cluster.cache.forget(assumed_pod)
    cluster.place("p1")
    assert decided == ["p0", "p1"]
