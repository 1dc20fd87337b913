"""The leader on the real cache. Only the API server is a fake: it takes writes and shows them to the cache."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonpatch
from prometheus_client import CollectorRegistry

from tests.builders.clusters import cluster_cache, machine, put
from webhook.controllers.placement.controller import PlacementController
from webhook.controllers.status_reporter import StatusReporter
from webhook.formats.autoscaling import Autoscaler
from webhook.formats.dra import Claim
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.claim_writes import ClaimWrites
from webhook.kube.election import Term
from webhook.kube.events import ObjectEvent
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome, Write
from webhook.metrics import PlacementMetrics
from webhook.model.names import NUMA_ALLOCATION
from webhook.placing.planner import Limits
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Asking, Rules

TERM = Term(1, "1-a", 0.0, 0.0)


def metrics() -> PlacementMetrics:
    """The controllers' metrics, of one test alone."""
    return PlacementMetrics(CollectorRegistry(), "test")


class ApiServer(PodWrites):
    """The pods as the API server has them. `shows`: whether its watch is up to date."""

    def __init__(self, cache: ClusterCache) -> None:
        self.outcome = Outcome.WRITTEN
        self.shows = True
        self.pods: dict[str, dict[str, Any]] = {}
        self.patched: list[str] = []
        self.annotated: list[str] = []
        self.evicted: list[str] = []
        self.deleted: list[str] = []
        self.refusals: dict[str, Outcome] = {}
        """The outcomes of evictions other than `outcome`."""
        self.reason, self.error, self.retry_after = "", "", 0.0
        """What is said of an eviction that fails."""
        self.ends_gracefully = False
        """Whether an evicted pod is shown as being deleted."""
        self.conditions: list[tuple[str, str, str]] = []
        self.events: list[ObjectEvent] = []
        self._cache = cache

    def has(self, *raws: Mapping[str, Any]) -> None:
        """These pods are created, or changed."""
        for raw in raws:
            self.pods[f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"] = dict(raw)
        self.show()

    def show(self) -> None:
        """Let the cache see every pod as it is."""
        if self.shows:
            put(self._cache, *self.pods.values())

    def delete(self, key: str) -> None:
        del self.pods[key]
        self._cache.pods.delete(key)

    async def patch(self, key: str, operations: Sequence[dict[str, Any]]) -> Write:
        self.patched.append(key)
        if self.outcome is Outcome.WRITTEN:
            self.has(jsonpatch.apply_patch(self.pods[key], list(operations)))
        return Write(self.outcome)

    async def read(self, key: str) -> dict[str, Any] | None:
        return self.pods.get(key)

    async def annotate(self, key: str, name: str, value: str | None) -> Write:
        self.annotated.append(key)
        raw = self.pods[key]
        others = {each: text for each, text in raw["metadata"]["annotations"].items() if each != name}
        metadata = {**raw["metadata"], "annotations": others | ({} if value is None else {name: value})}
        self.pods[key] = {**raw, "metadata": metadata}
        if self.shows:
            put(self._cache, self.pods[key])
        return Write(Outcome.WRITTEN)

    async def set_condition(self, key: str, uid: str, condition: Mapping[str, str], version: str = "") -> Write:
        raw = self.pods[key]
        if version not in {"", raw["metadata"].get("resourceVersion", "")}:
            return Write(Outcome.STALE)
        assert raw["metadata"]["uid"] == uid
        status = raw.get("status") or {}
        others = [one for one in status.get("conditions") or () if one["type"] != condition["type"]]
        self.conditions.append((key, condition["status"], condition["reason"]))
        if self.outcome is Outcome.WRITTEN:
            self.has({**raw, "status": {**status, "conditions": [*others, dict(condition)]}})
        return Write(self.outcome)

    async def nominate(self, key: str, uid: str, node: str | None) -> Write:
        raw = self.pods.get(key)
        if raw is None or raw["metadata"]["uid"] != uid:
            return Write(Outcome.GONE)
        self.has({**raw, "status": {**(raw.get("status") or {}), "nominatedNodeName": node}})
        return Write(Outcome.WRITTEN)

    async def clear_nomination(self, key: str, uid: str, version: str) -> Write:
        if version != self.pods[key]["metadata"].get("resourceVersion", ""):
            return Write(Outcome.STALE)
        return await self.nominate(key, uid, None)

    async def evict(self, key: str, uid: str, *, dry_run: bool = False) -> Write:
        return self._remove(self.evicted, key, uid, dry_run=dry_run)

    async def delete_pod(self, key: str, uid: str, *, dry_run: bool = False) -> Write:
        return self._remove(self.deleted, key, uid, dry_run=dry_run)

    def _remove(self, removed: list[str], key: str, uid: str, *, dry_run: bool) -> Write:
        if key not in self.pods:
            return Write(Outcome.GONE)
        assert self.pods[key]["metadata"]["uid"] == uid
        outcome = self.refusals.get(key, self.outcome)
        if not dry_run:
            removed.append(key)
        if not dry_run and outcome is Outcome.WRITTEN and self.ends_gracefully:
            raw = self.pods[key]
            deleted = {"deletionTimestamp": "2030-01-01T03:07:10Z", "deletionGracePeriodSeconds": 30}
            self.has({**raw, "metadata": {**raw["metadata"], **deleted}})
        return Write(outcome, self.reason, self.error, self.retry_after)

    def tell(self, event: ObjectEvent) -> None:
        self.events.append(event)

    def told(self) -> list[tuple[str, str]]:
        """(pod, reason) of every event."""
        return [(event.key, event.reason) for event in self.events]


class ClaimServer(ClaimWrites):
    """The claims as the API server has them. Its answers to allocations are those of `outcomes`, then WRITTEN."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self.outcomes: list[Outcome] = []
        self.claims: dict[str, dict[str, Any]] = {}
        self.released: list[str] = []

    def has(self, *raws: Mapping[str, Any]) -> None:
        """These claims are made, or changed."""
        for raw in raws:
            self.claims[f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"] = dict(raw)
        put(self._cache, *raws)

    async def allocate(self, claim: Claim, allocation: Mapping[str, Any], pod: str, uid: str) -> Write:
        outcome = self.outcomes.pop(0) if self.outcomes else Outcome.WRITTEN
        raw = self.claims[claim.key]
        if raw["metadata"].get("resourceVersion", "") != claim.resource_version:
            return Write(Outcome.STALE)
        if outcome is Outcome.WRITTEN:
            consumer = {"resource": "pods", "name": pod.partition("/")[2], "uid": uid}
            self.has({**raw, "status": {"allocation": allocation, "reservedFor": [consumer]}})
        return Write(outcome)

    async def release(self, key: str, pod_uid: str) -> Write:
        self.released.append(key)
        raw = self.claims[key]
        if any(one["uid"] == pod_uid for one in (raw.get("status") or {}).get("reservedFor") or ()):
            self.has({**raw, "status": {}})
        return Write(Outcome.WRITTEN)


class Leader:
    """The placement controller in its term."""

    api_server: type[ApiServer] = ApiServer

    def __init__(
        self,
        *objects: Mapping[str, Any],
        ungate_after: float = 0.0,
        reserve_after: float = 0.0,
        preempting: ClusterCache | None = None,
        cluster: ClusterCache | None = None,
        autoscaler: Autoscaler = "None",
        clock: Callable[[], float] = float,
    ) -> None:
        """preempting: the cluster, if pods may be preempted in it; cluster: the same if none may.

        autoscaler: the one that is asked for nodes.

        clock: measures the work of a cycle; by default it stands still, so that a cycle has time for all.
        """
        self.leads = True
        self.unsettled = 0.0
        self.cache = preempting or cluster or cluster_cache()
        put(self.cache, *objects)
        self.api = self.api_server(self.cache)
        self.claims = ClaimServer(self.cache)
        events: Any = self.api
        self.reporter = reporter = StatusReporter(self.api, events, self.cache.gated_pods, metrics())
        limits = Limits(
            assume_ttl=60.0,
            concurrency=4,
            ungate_after=ungate_after,
            reserve_after=reserve_after,
            preempts=preempting is not None,
            asking=Asking(autoscaler),
        )
        leadership: Any = self
        self.controller = PlacementController(
            self.cache,
            self.api,
            reporter,
            Rules(autoscaler=autoscaler),
            limits,
            leadership,
            self.read_owner,
            claim_writes=self.claims,
            clock=clock,
        )
        self.controller.started(TERM)

    async def cycle(self) -> None:
        """One cycle, and the writes that it began."""
        await self.controller._cycle()
        await self.controller.settle()

    def waiting(self) -> set[str]:
        """The pods behind the gate."""
        return {key.partition("/")[2] for key in self.cache.gated_pods()}

    def nodes(self) -> dict[str, str]:
        """The node of each pod that was given one, as the pod says it."""
        allocations = {key: raw["metadata"]["annotations"].get(NUMA_ALLOCATION) for key, raw in self.api.pods.items()}
        return {
            key.partition("/")[2]: json.loads(allocation)["node"]
            for key, allocation in allocations.items()
            if allocation
        }

    def text(self, name: str, namespace: str = "default") -> str:
        """What the reporter would write about a pod."""
        report = self.reporter._to_report.get(namespace, f"{namespace}/{name}")
        return "" if report is None else report.why.text

    # What the controller asks about leadership and owners.

    def is_leader(self, _shard: str = "") -> bool:
        return self.leads

    def seconds_until_settled(self, _shard: str = "") -> float:
        return self.unsettled

    async def read_owner(self, namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        raise AssertionError((namespace, owner))


class HangingApiServer(ApiServer):
    """Answers no patch before `answers` is set, and then refuses those of the pods `refused`. It shows none of them."""

    def __init__(self, cache: ClusterCache) -> None:
        super().__init__(cache)
        self.answers = asyncio.Event()
        self.refused: frozenset[str] = frozenset()

    async def patch(self, key: str, operations: Sequence[dict[str, Any]]) -> Write:
        del operations
        self.patched.append(key)
        await self.answers.wait()
        if key in self.refused:
            return Write(Outcome.REFUSED, error="422 Invalid: metadata.annotations: Too long" + "x" * 10_000)
        return Write(Outcome.WRITTEN)


class HangingLeader(Leader):
    """The leader of four nodes of 16 and 16 free CPUs, whose API server and owners hang."""

    api: HangingApiServer
    api_server = HangingApiServer

    def __init__(self, *pods: Mapping[str, Any]) -> None:
        nodes = (one for number in range(4) for one in machine(name=f"n{number}", free=(16, 16)))
        # No pod has waited so long, but each is asked.
        super().__init__(*nodes, *pods, ungate_after=1e9, clock=lambda: 0.0)
        # However slow the machine: what is put off stays so, and a cycle has time for all.
        self.controller._delays._clock = lambda: 0.0

    async def read_owner(self, namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        await asyncio.Event().wait()
        raise AssertionError((namespace, owner))

    def waiting_because(self) -> dict[str, str]:
        found = self.reporter._to_report._namespaces.get("default", {})
        return {key: one.why.text for key, one in found.items()}

    def turn(self) -> None:
        """One cycle, driven by hand: it may give others their turn, and waits for nothing."""
        running = self.controller._cycle()
        try:
            while True:
                assert running.send(None) is None, "a cycle waits for something"
        except StopIteration:
            pass
