"""A leader on a cluster in memory."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from webhook.controllers.placement.controller import PlacementController
from webhook.controllers.status_reporter import StatusReporter
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.election import Term
from webhook.kube.events import ObjectEvent
from webhook.kube.write import Outcome, Write
from webhook.metrics import PlacementMetrics
from webhook.placing.planner import Limits
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

TERM = Term(1, "1-a", 0.0, 0.0)


def metrics() -> PlacementMetrics:
    """The controllers' metrics, of one test alone."""
    return PlacementMetrics(CollectorRegistry(), "test")


class Site:
    """The leader of a cluster of pods that wait; its API server keeps every write unanswered until `answers` is set."""

    def __init__(self, *raws: dict[str, Any]) -> None:
        self.cache = ClusterCache()
        for number in range(4):
            put(self.cache, node(name=f"n{number}"), nrt(node=f"n{number}", free=(16, 16)))
        for raw in raws:
            self.see(raw)
        self.events: list[ObjectEvent] = []
        self.patched: list[str] = []
        self.answers = asyncio.Event()
        self.refused: frozenset[str] = frozenset()
        events: Any = self
        writes: Any = self
        leadership: Any = self
        self.status_reporter = StatusReporter(writes, events, self.cache.gated_pods, metrics())
        # No pod has waited so long, but each is asked.
        limits = Limits(assume_ttl=60.0, concurrency=2, ungate_after=1e9)
        self.controller = PlacementController(
            self.cache, writes, self.status_reporter, Rules(), limits, leadership, self.read_owner, clock=lambda: 0.0
        )
        # However slow the machine: what is put off stays so, and a cycle has time for all.
        self.controller._delays._clock = lambda: 0.0
        self.controller.started(TERM)

    def see(self, raw: dict[str, Any]) -> None:
        self.cache.pods.upsert(f"default/{raw['metadata']['name']}", raw)

    def is_leader(self) -> bool:
        return True

    def seconds_until_settled(self) -> float:
        return 0.0

    async def read_owner(self, namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        await asyncio.Event().wait()
        raise AssertionError((namespace, owner))

    def tell(self, event: ObjectEvent) -> None:
        self.events.append(event)

    async def patch(self, key: str, operations: Sequence[dict[str, Any]]) -> Write:
        del operations
        self.patched.append(key)
        await self.answers.wait()
        if key in self.refused:
            error = "422 Invalid: metadata.annotations: Too long" + "x" * 10_000
            return Write(Outcome.REFUSED, error=error)
        return Write(Outcome.WRITTEN)

    def waiting_because(self) -> dict[str, str]:
        to_tell = self.status_reporter._to_report._namespaces.get("default", {})
        return {key: one.why.text for key, one in to_tell.items()}

    def cycle(self) -> None:
        """One cycle, driven by hand: it may give others their turn, and waits for nothing."""
        running = self.controller._cycle()
        try:
            while True:
                assert running.send(None) is None, "a cycle waits for something"
        except StopIteration:
            pass
