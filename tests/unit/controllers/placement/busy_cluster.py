"""A leader with more pods than a cycle has time for."""

from collections.abc import Callable
from typing import Any

import jsonpatch

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from webhook.controllers.placement.controller import PlacementController
from webhook.controllers.status_reporter import StatusReporter
from webhook.kube.write import Outcome, Write
from webhook.placing.planner import Limits
from webhook.state.rules import Rules

# A decision takes so long by the tests' clock: two parts of 15 are all that a cycle makes in vain.
DECISION_SECONDS = 0.001


class BusyCluster:
    """One node of 8 CPUs in one NUMA node, a cordoned one that is large enough for all, and a leader."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """clock: measures the work of a cycle; None: `now`."""
        self.now = 0.0
        self.takes = DECISION_SECONDS
        self.decisions = 0
        far = node(name="far", cpus=100_000, unschedulable=True)
        self.cache = cluster_cache(node(name="n0", cpus=8), nrt(node="n0", free=(8,), cpus=8), far)
        parts: Any = self
        status_reporter = StatusReporter(parts, parts, self.cache.gated_pods, parts)
        limits = Limits(assume_ttl=60.0, concurrency=64)
        clock = clock or (lambda: self.now)
        self.controller = PlacementController(
            self.cache, parts, status_reporter, Rules(), limits, parts, parts, claim_writes=parts, clock=clock
        )
        term: Any = object()
        self.controller.started(term)

    def create(self, namespace: str, name: str, cpu: str, created: int = 0, **spec: Any) -> None:
        put(self.cache, gated(name=name, namespace=namespace, second=created, cpu=cpu, **spec))

    def cannot_be_bound(self, key: str) -> None:
        """The scheduler has tried this pod, and says so in its status."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        raw = self.cache.ungated_pods()[key]
        self.cache.pods.upsert(key, {**raw, "status": {"conditions": [condition]}})

    def change(self) -> None:
        """The node changes in a way that helps nobody."""
        put(self.cache, node(name="n0", cpus=8, labels={"turn": str(self.decisions)}))

    async def play(self) -> int:
        """One cycle; the decisions made."""
        before = self.decisions
        await self.controller._cycle()
        await self.controller.settle()
        return self.decisions - before

    def cycle(self) -> None:
        """One has begun."""

    async def cycles_until_placed(self, key: str) -> int:
        for cycles in range(1, 100):
            await self.play()
            if key not in self.cache.gated_pods():
                return cycles
        raise AssertionError(key)

    # What the controller needs of others.

    def decided(self, unit: str, seconds: float) -> None:
        del unit, seconds
        self.decisions += 1
        self.now += self.takes

    def is_leader(self, _shard: str = "") -> bool:
        return True

    def seconds_until_settled(self, _shard: str = "") -> float:
        return 0.0

    async def patch(self, key: str, operations: Any) -> Write:
        raw = jsonpatch.apply_patch(dict(self.cache.gated_pods()[key]), list(operations))
        self.cache.pods.upsert(key, raw)
        return Write(Outcome.WRITTEN)

    def __getattr__(self, name: str) -> Any:
        """Figures and events that nobody looks at here."""
        return lambda *_, **__: None
