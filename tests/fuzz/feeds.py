"""Objects into the cluster cache, as informers add them; then decisions, cycles of the controller, backfills.

1. Nothing is raised. A contained fault counts as raised.
2. The decision on an honest pod stays the same, unless the object is about a node.
3. CPU time and memory stay within bounds.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from prometheus_client import CollectorRegistry

from tests.fuzz import corpus, oracle
from tests.fuzz.mutate import mutated
from tests.fuzz.outcome import BrokenError, within_bounds
from tests.handlers import mutated as answered
from webhook.cli.input.object_schema import NAMESPACE, NODE, POD, faults
from webhook.controllers.placement.controller import PlacementController
from webhook.controllers.status_reporter import StatusReporter
from webhook.formats.dra import Claim
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.formats.topology import TopologySource
from webhook.kube.claim_writes import ClaimWrites
from webhook.kube.election import Term
from webhook.kube.events import EventRecorder, ObjectEvent
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome, Write
from webhook.metrics import PlacementMetrics
from webhook.model.raw import Draft
from webhook.placing.planner import Limits
from webhook.state.cluster_cache import ClusterCache
from webhook.state.devices import DEVICE_KINDS, NAMESPACED_DEVICE_KINDS
from webhook.state.rules import Rules
from webhook.state.store import Feed

_SHAPES = {"namespaces": NAMESPACE, "nodes": NODE, "pods": POD}
# Of all pods, or of those of a namespace.
_OF_NODES = {"namespaces", "nodes", "node_topologies"}
_NAMESPACED = {"pods", *NAMESPACED_DEVICE_KINDS}


class Feeds:
    """A cluster that is recreated for each input."""

    name = "feeds"

    def __init__(self) -> None:
        topologies = corpus.topologies()
        self._seeds: dict[str, Sequence[Draft]] = {
            "nodes": corpus.nodes(),
            "node_topologies": corpus.node_topologies(),
            "pods": corpus.pods(),
            "namespaces": corpus.namespaces(),
            TopologySource.KAI: [topologies[TopologySource.KAI]],
            TopologySource.KUEUE: [topologies[TopologySource.KUEUE]],
            **corpus.devices(),
        }
        self._parts = [one for seeds in self._seeds.values() for one in seeds]

    def draw(self, random: Random) -> list[tuple[str, Draft]]:
        """Some objects, each with its feed."""
        weights = (2, 4, 6, 2, 1, 1, *(1 for _ in DEVICE_KINDS))
        feeds = random.choices(list(self._seeds), weights, k=random.choice((1, 1, 2, 4)))
        return [(feed, mutated(random, random.choice(self._seeds[feed]), self._parts)) for feed in feeds]

    async def check(self, drawn: list[tuple[str, Draft]]) -> None:
        """Apply them one after the other."""
        cache = ClusterCache()
        corpus.populate(cache)
        for raw in corpus.pods():
            cache.pods.upsert(f"team/{raw['metadata']['name']}", raw)
        before = _decided(cache)
        for feed, raw in drawn:
            key = _key(feed, raw)
            if key is None or any(fault for fault in faults(raw, _SHAPES.get(feed, {}))):
                continue  # the API server stores no such object
            with within_bounds(f"{feed} {key[:60]}"):
                _handler(cache, feed).upsert(key, raw)
                after = _decided(cache)
            if not _is_about_nodes(feed, raw) and after != before:
                raise BrokenError(f"{feed} {key[:60]}: an honest pod is answered otherwise than before")
            before = after
        with within_bounds("a cycle of the controller"):
            await _cycle(cache)
        list(cache.allocation_backfills())
        for feed, raw in drawn:
            key = _key(feed, raw)
            if key is not None:
                _handler(cache, feed).delete(key)
        _decided(cache)

    def may_fail(self, drawn: Any) -> bool:
        """See Part."""
        del drawn
        return False

    def smaller(self, drawn: list[tuple[str, Draft]]) -> Iterator[list[tuple[str, Draft]]]:
        """Fewer objects, then smaller ones."""
        if len(drawn) > 1:
            yield from ([one for number, one in enumerate(drawn) if number != out] for out in range(len(drawn)))
        for number, (feed, raw) in enumerate(drawn):
            for less in oracle.without_parts(raw):
                yield [*drawn[:number], (feed, less), *drawn[number + 1 :]]

    async def stop(self) -> None:
        """Nothing to close."""


def _handler(cache: ClusterCache, feed: str) -> Feed[Any]:
    if feed in DEVICE_KINDS:
        return cache.devices.feeds[feed]
    handler: Feed[Any] = cache.topologies[feed] if isinstance(feed, TopologySource) else getattr(cache, feed)
    return handler


def _key(feed: str, raw: Any) -> str | None:
    """The informer's key. None for an object without the fields that the API server adds to all."""
    try:
        metadata = raw["metadata"]
        name, namespace = metadata["name"], metadata["namespace"] if feed in _NAMESPACED else ""
        given = name, namespace or "-", *((metadata["uid"], metadata["resourceVersion"]) if feed == "pods" else ())
    except (KeyError, TypeError):
        return None
    if not all(isinstance(text, str) and text for text in given):
        return None
    return f"{namespace}/{name}" if feed in _NAMESPACED else name


def _is_about_nodes(feed: str, raw: Draft) -> bool:
    """Whether the object may change what is free: it is bound, names its node, or takes such a pod's name."""
    if feed != "pods":
        return feed in _OF_NODES
    annotations = raw["metadata"].get("annotations") or {}
    at_home = raw["spec"].get("nodeName") or "topology-webhook.dev/numa" in annotations
    return bool(at_home) or raw["metadata"]["name"] in {"bound", "unhinted"}


def _decided(cache: ClusterCache) -> str:
    """The decision on a valid pod."""
    request = {"uid": "u", "operation": "CREATE", "namespace": "team", "kind": {"kind": "Pod"}, "object": corpus.pod()}
    review = AdmissionRequest.from_object({"request": request} | _ENVELOPE)
    return repr(answered(review, cache.snapshot(), Rules()))


_ENVELOPE = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


async def _cycle(cache: ClusterCache) -> None:
    writes, told = Written(), Told(None, "us")  # type: ignore[arg-type] # nothing is sent
    status_reporter = StatusReporter(writes, told, cache.gated_pods, PlacementMetrics(CollectorRegistry(), "fuzz"))
    leadership: Any = Leads()
    limits = Limits(assume_ttl=60.0, concurrency=8, ungate_after=1.0, reserve_after=1.0)
    controller = PlacementController(
        cache, writes, status_reporter, Rules(), limits, leadership, _no_owner, claim_writes=WrittenClaims()
    )
    controller.started(Term(1, "us", 0.0, 0.0))
    for _ in range(2):
        await controller._cycle()
        await controller.settle()


class Leads:
    """Leadership that this replica has, and that no other had before."""

    def is_leader(self, _shard: str = "") -> bool:
        return True

    def seconds_until_settled(self, _shard: str = "") -> float:
        return 0.0


class Written(PodWrites):
    """Every patch succeeds."""

    def __init__(self) -> None: ...

    async def patch(self, key: str, operations: Sequence[Mapping[str, Any]]) -> Write:
        del key, operations
        return Write(Outcome.WRITTEN)

    async def read(self, key: str) -> None:
        del key


class WrittenClaims(ClaimWrites):
    """Every allocation succeeds."""

    def __init__(self) -> None: ...

    async def allocate(self, claim: Claim, allocation: Mapping[str, Any], pod: str, uid: str) -> Write:
        del claim, allocation, pod, uid
        return Write(Outcome.WRITTEN)


class Told(EventRecorder):
    """Events are dropped."""

    def tell(self, event: ObjectEvent) -> None:
        del event


async def _no_owner(*_: object) -> None:
    return None
