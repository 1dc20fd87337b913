"""Thousands of pods that fit nowhere, each of another shape, delay others by a bounded number of decisions."""

from typing import Any

import jsonpatch

from tests.unit.cache.test_cluster_cache import node, topology
from tests.unit.controllers.placement.test_gated_pods import gated
from webhook.cache.cluster_cache import ClusterCache
from webhook.controllers.placement.controller import PlacementController
from webhook.controllers.placement.dependencies import Limits
from webhook.controllers.placement.fair_order import PART_SECONDS
from webhook.controllers.status_reporter import StatusReporter
from webhook.kube.pod_writes import Outcome
from webhook.model.names import PLACEMENT_GATE
from webhook.model.rules import Rules

# A decision takes so long by the tests' clock: two parts of 15 are all that a round makes in vain.
DECISION_SECONDS = 0.001
PER_ROUND = 2 * round(PART_SECONDS / DECISION_SECONDS)


class Cluster:
    """One node of 8 CPUs in one NUMA node, a cordoned one that is large enough for all, and a leader."""

    def __init__(self) -> None:
        self.now = 0.0
        self.takes = DECISION_SECONDS
        self.decisions = 0
        self.cache = ClusterCache()
        self.cache.nodes.upsert("n0", node("n0"))
        self.cache.node_topologies.upsert("n0", _topology())
        large = {"cpu": "100k", "memory": "16Gi", "pods": "110"}
        self.cache.nodes.upsert(
            "far", {**node("far"), "spec": {"unschedulable": True}, "status": {"allocatable": large}}
        )
        parts: Any = self
        status_reporter = StatusReporter(parts, parts, self.cache.gated_pods, parts)
        limits = Limits(assume_ttl=60.0, concurrency=64)
        self.controller = PlacementController(self.cache, parts, status_reporter, Rules(), limits, lambda: parts, parts)
        self.controller.clock = lambda: self.now
        term: Any = object()
        self.controller.started(term)

    def create(self, namespace: str, name: str, cpu: str, created: int = 0, **spec: Any) -> None:
        raw = gated(name, created, cpu=cpu, schedulingGates=[{"name": PLACEMENT_GATE}], **spec)
        raw["metadata"] |= {"namespace": namespace, "uid": f"{namespace}/{name}", "resourceVersion": "1"}
        self.cache.pods.upsert(f"{namespace}/{name}", raw)

    def cannot_be_bound(self, key: str) -> None:
        """The scheduler has tried this pod, and says so in its status."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        raw = self.cache.ungated_pods()[key]
        self.cache.pods.upsert(key, {**raw, "status": {"conditions": [condition]}})

    def change(self) -> None:
        """The node changes in a way that helps nobody."""
        labels = {"turn": str(self.decisions)}
        self.cache.nodes.upsert("n0", node("n0", **labels))

    async def play(self) -> int:
        """One round; the decisions made."""
        before = self.decisions
        await self.controller._round()
        await self.controller.settle()
        return self.decisions - before

    def round(self) -> None:
        """One has begun."""

    async def rounds_until_placed(self, key: str) -> int:
        for rounds in range(1, 100):
            await self.play()
            if key not in self.cache.gated_pods():
                return rounds
        raise AssertionError(key)

    # What the controller needs of others.

    def decided(self, unit: str, seconds: float) -> None:
        del unit, seconds
        self.decisions += 1
        self.now += self.takes

    def is_leader(self) -> bool:
        return True

    def seconds_until_settled(self) -> float:
        return 0.0

    async def patch(self, key: str, operations: Any) -> Outcome:
        raw = jsonpatch.apply_patch(dict(self.cache.gated_pods()[key]), list(operations))
        self.cache.pods.upsert(key, raw)
        return Outcome.WRITTEN

    def __getattr__(self, name: str) -> Any:
        """Figures and events that nobody looks at here."""
        return lambda *_, **__: None


def _topology() -> dict[str, Any]:
    raw = topology("n0")
    memory = {"name": "memory", "capacity": "16Gi", "allocatable": "16Gi", "available": "16Gi"}
    raw["zones"][0]["resources"].append(memory)
    return raw


def crowd(cluster: Cluster, count: int, namespace: str = "crowd") -> None:
    """So many pods that fit nowhere now, each of another shape."""
    for number in range(count):
        cluster.create(namespace, f"p{number:04}", str(100 + number))


async def test_a_pod_of_another_namespace_that_comes_last_is_placed_in_the_next_round() -> None:
    cluster = Cluster()
    crowd(cluster, 3000)
    assert await cluster.play() <= PER_ROUND + 2
    cluster.create("others", "fits", "2", created=9)
    assert await cluster.rounds_until_placed("others/fits") == 1
    assert cluster.decisions <= 2 * (PER_ROUND + 2)


async def test_it_is_however_long_a_decision_takes() -> None:
    cluster = Cluster()
    cluster.takes = 1.0
    crowd(cluster, 100)
    crowd(cluster, 100, "another")
    for _ in range(3):
        assert await cluster.play() == 2
    cluster.create("others", "fits", "2", created=9)
    assert await cluster.rounds_until_placed("others/fits") == 1


async def test_so_is_one_of_the_same_namespace_once_the_others_were_tried() -> None:
    cluster = Cluster()
    crowd(cluster, 300)
    while await cluster.play():
        pass
    cluster.change()
    cluster.create("crowd", "fits", "2", created=9)
    assert await cluster.rounds_until_placed("crowd/fits") == 1


async def test_everybody_has_a_turn_though_the_cluster_changes_all_the_time() -> None:
    cluster = Cluster()
    crowd(cluster, 300)
    cluster.create("crowd", "fits", "2", created=9)
    for _ in range(300 // (PER_ROUND // 2) + 1):
        cluster.change()
        await cluster.play()
    assert "crowd/fits" not in cluster.cache.gated_pods()


async def test_what_failed_is_not_tried_again_while_nothing_changes() -> None:
    cluster = Cluster()
    crowd(cluster, 120)
    made = [await cluster.play() for _ in range(10)]
    assert sum(made) == 120
    assert made[-1] == 0
    cluster.create("others", "too-large", "1000")  # another pod that waits changes nothing for those
    assert await cluster.play() == 1
    cluster.change()
    assert await cluster.play() > 1


async def test_what_failed_beside_assumed_pods_of_its_own_round_is_tried_again_when_those_end() -> None:
    cluster = Cluster()
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
    names = ["a", "b", "c"]
    for created, name in enumerate(names):
        cluster.create("default", name, "8", created, volumes=volumes)
    for count, name in enumerate(names, 1):
        # Nothing is reserved when the round begins, nor when the next one does: each pod fills the node for a moment.
        await cluster.play()
        assert len(cluster.cache.gated_pods()) == len(names) - count
        cluster.cannot_be_bound(f"default/{name}")


async def test_a_round_that_does_not_reach_all_has_another_one_follow_and_the_last_one_none() -> None:
    cluster = Cluster()
    crowd(cluster, 120)
    rounds, woken = 0, True
    while woken:
        cluster.controller._wake.clear()
        await cluster.play()
        rounds, woken = rounds + 1, cluster.controller._wake.is_set()
    assert cluster.decisions == 120
    assert rounds >= 120 // (PER_ROUND + 2)


async def test_where_few_wait_the_oldest_goes_first_whosever_it_is() -> None:
    cluster = Cluster()
    cluster.create("a", "young", "8", created=5)
    cluster.create("b", "old", "7", created=1)
    await cluster.play()
    assert cluster.cache.gated_pods().keys() == {"a/young"}
