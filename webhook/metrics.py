"""The service's metrics, in a registry of its own; docs/metrics.md explains every line.

The reviews and the controllers feed counters and histograms. Gauges are computed at each scrape, so none is stale.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from aiohttp import web
from prometheus_client import Counter, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from webhook.codec import CODEC
from webhook.internal_errors import Where, internal_error_counts
from webhook.version import VERSION

# A decision takes between a fifth of a millisecond and tens of milliseconds for a large gang.
_DECISION_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0)
# The values of `webhook.formats.kubernetes.rejected_pod.RejectionReason`.
_REJECTIONS: Final = (
    *("TopologyAffinityError", "SMTAlignmentError", "EmptyPodSharedPoolError", "UnexpectedAdmissionError"),
    *("OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods", "OutOfExtendedResources", "Other"),
)
# Creation times are whole seconds. A pod that waits until others terminate may wait up to a day.
_WAIT_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)


class PlacementMetrics:
    """The counters and histograms that the controllers feed: of placing pods and gangs."""

    def __init__(self, registry: CollectorRegistry, namespace: str) -> None:
        self.pods_not_aligned: Final = Counter(
            "pods_not_aligned",
            "Pods that request a NUMA policy but that kubelets do not align, by outcome.",
            ["verdict"],
            namespace=namespace,
            registry=registry,
        )
        self._cycles = Counter(
            "placement_cycles", "Placement cycles over the gated pods.", namespace=namespace, registry=registry
        )
        self._decisions = Histogram(
            "placement_decision_duration_seconds",
            "Time to decide whether and where a pod or gang fits.",
            ["unit"],
            namespace=namespace,
            buckets=_DECISION_BUCKETS,
            registry=registry,
        )
        self._ungate = Counter(
            "pods_ungated", "Pods whose gate was removed, by path.", ["how"], namespace=namespace, registry=registry
        )
        self._waited = Histogram(
            "gated_duration_seconds",
            "Time from a pod's creation until its gate was removed.",
            namespace=namespace,
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )
        self._evicted = Counter("pods_evicted", "Stuck pods evicted.", namespace=namespace, registry=registry)
        self._preemptions = Counter(
            "preemption_attempts",
            "Attempts to preempt pods for a waiting pod or gang, by result.",
            ["result"],
            namespace=namespace,
            registry=registry,
        )
        self._victims = Counter(
            "preemption_victims",
            "Pods evicted or deleted for higher-priority pods.",
            namespace=namespace,
            registry=registry,
        )
        self._violations = Counter(
            "preemption_budget_violations",
            "Preempted pods whose removal violated a PodDisruptionBudget.",
            namespace=namespace,
            registry=registry,
        )
        self._hint_backfilled = Counter(
            "hints_backfilled",
            "NUMA allocations written into pods that were bound without one.",
            namespace=namespace,
            registry=registry,
        )
        self._corrected = Counter(
            "hints_corrected",
            "NUMA allocations of bound pods that were changed, removed or written again, by kind of change.",
            ["how"],
            namespace=namespace,
            registry=registry,
        )
        self.kubelet_rejections: Final = Counter(
            "kubelet_rejections",
            "Pods that their kubelets rejected, by reason.",
            ["reason", "managed"],
            namespace=namespace,
            registry=registry,
        )
        for reason in _REJECTIONS:  # from 0, so that an alert on an increase sees the first one, too
            for managed in ("true", "false"):
                self.kubelet_rejections.labels(reason, managed)
        self.nodes_avoided: Final = Counter(
            "nodes_avoided",
            "Rejections after which the next pods of the same controller or gang avoid the node, by reason.",
            ["reason"],
            namespace=namespace,
            registry=registry,
        )
        self.gangs_moved: Final = Counter(
            "gangs_moved", "Gangs that lost a node and moved as a whole.", namespace=namespace, registry=registry
        )
        self.rejected_pods_deleted: Final = Counter(
            "rejected_pods_deleted", "Rejected pods that were deleted.", namespace=namespace, registry=registry
        )
        for reason in _REJECTIONS:
            self.nodes_avoided.labels(reason)

    def cycle(self) -> None:
        """Count the start of a cycle."""
        self._cycles.inc()

    def decided(self, unit: str, seconds: float) -> None:
        """Observe a decision about a "pod" or a "gang"."""
        self._decisions.labels(unit).observe(seconds)

    def ungated(self, how: str, waited: float) -> None:
        """Count a pod whose gate was removed."""
        self._ungate.labels(how).inc()
        self._waited.observe(waited)

    def not_aligned(self) -> None:
        """Count a pod that was assigned although its node's kubelet does not align it."""
        self.pods_not_aligned.labels("allow").inc()

    def evicted(self) -> None:
        """Count an evicted pod."""
        self._evicted.inc()

    def preemption(self, how: str) -> None:
        """Count an attempt to preempt."""
        self._preemptions.labels(how).inc()

    def preempted(self, *, violates: bool) -> None:
        """Count a victim."""
        self._victims.inc()
        if violates:
            self._violations.inc()

    def allocation_backfilled(self) -> None:
        """Count a hint written into a pod that was bound without one."""
        self._hint_backfilled.inc()

    def corrected(self, how: str) -> None:
        """Count a changed hint of a bound pod."""
        self._corrected.labels(how).inc()

    def kubelet_rejected(self, reason: str, *, managed: bool) -> None:
        """Count a pod that a kubelet rejected."""
        self.kubelet_rejections.labels(reason, str(managed).lower()).inc()

    def gang_moved(self) -> None:
        """Count a gang that moves."""
        self.gangs_moved.inc()

    def rejected_deleted(self) -> None:
        """Count a rejected pod that was deleted."""
        self.rejected_pods_deleted.inc()

    def node_avoided(self, reason: str) -> None:
        """Count a node that the next pods of a controller or gang avoid."""
        self.nodes_avoided.labels(reason).inc()


NAMESPACE = "topology_webhook"

# A decision over 5,000 nodes must take under 1 ms, a review slightly more; the API server waits for seconds.
_BUCKETS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class InformerSample:
    """The current state of one informer; `last_event`: the last answer or event, in seconds since the epoch."""

    resource: str
    synced: bool
    objects: int
    lists: int
    last_event: float
    faulty_objects: int


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """The state of the cluster. Every replica sees it, but one reports it: so sums over replicas are right."""

    policy_disagreements: int
    unknown_policies: int
    gated_pods: int
    waiting_pods: Mapping[tuple[str, str], int]
    """(namespace, reason) -> pods."""
    stuck_pods: int
    scale_up_pods: Mapping[str, int]
    """Autoscaler -> pods that are marked for it."""
    provisioning_requests: Mapping[str, int]
    """Answer -> ProvisioningRequests for gangs."""
    assumed_count: int
    oldest_waiting_pod: int | None
    """When it was created, in seconds since the epoch; None: no pod waits."""
    oldest_waiting_gang: int | None
    """When its oldest waiting pod was created, likewise."""
    preemption_is_paused: bool
    nodes_without_topology: int
    nodes_with_stale_topology: int
    rooms: Sequence[tuple[str, str, str, str, float, float | None]]
    """Resource; topology, level and domain, each empty where it is not about one; free, and on one NUMA node."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The current state of the service."""

    ready: bool
    informers: tuple[InformerSample, ...]
    generation: int
    certificate_end: datetime | None
    cluster: ClusterSample | None
    """None if this replica does not lead."""
    api_errors: Mapping[tuple[str, str], int]
    """Method and status -> failed calls to the API server."""
    shards: Mapping[str, int] = field(default_factory=dict)
    """Shard that this replica leads -> the pods that wait in it; empty without a shard label."""


class Metrics:
    """The registry and its counters."""

    def __init__(self, sample: Callable[[], Sample]) -> None:
        self.registry = CollectorRegistry()
        self.reviews = Counter(
            "reviews",
            "Admission reviews answered, by webhook, operation and verdict.",
            ["webhook", "operation", "verdict"],
            namespace=NAMESPACE,
            registry=self.registry,
        )
        self.denials = Counter(
            "denials",
            "Admission reviews denied, by webhook and reason.",
            ["webhook", "reason"],
            namespace=NAMESPACE,
            registry=self.registry,
        )
        self.observed_reviews = Counter(
            "observed_reviews",
            "Reviews whose verdict mode Observe did not apply, by webhook, verdict and reason of a denial.",
            ["webhook", "verdict", "reason"],
            namespace=NAMESPACE,
            registry=self.registry,
        )
        self.review_seconds = Histogram(
            "review_duration_seconds",
            "Time from a review's first byte to its answer.",
            ["webhook"],
            namespace=NAMESPACE,
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.excluded = Counter(
            "excluded_nodes",
            "Nodes that a decision excluded, by reason, summed over decisions.",
            ["reason"],
            namespace=NAMESPACE,
            registry=self.registry,
        )
        self.unreserved = Counter(
            "bindings_unreserved",
            "Bindings that passed without a reservation.",
            ["reason"],
            namespace=NAMESPACE,
            registry=self.registry,
        )
        self.connections_closed = Counter(
            "connections_closed",
            "Connections closed by the service before their time, by port and reason.",
            ["port", "reason"],
            namespace=NAMESPACE,
            registry=self.registry,
        )
        self.placement = PlacementMetrics(self.registry, NAMESPACE)
        self.registry.register(_StateCollector(sample))
        ProcessCollector(registry=self.registry)

    async def serve(self, _: web.Request) -> web.Response:
        """GET /metrics."""
        return web.Response(body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


class _StateCollector(Collector):
    """The state as gauges, computed at each scrape."""

    def __init__(self, sample: Callable[[], Sample]) -> None:
        self._sample = sample

    def collect(self) -> Iterator[Metric]:
        sample = self._sample()
        build = GaugeMetricFamily(
            f"{NAMESPACE}_build_info", "Always 1; the running version.", labels=["version", "python", "codec"]
        )
        build.add_metric([VERSION, platform.python_version(), CODEC], 1)
        yield build
        yield _gauge("ready", "1 when reviews are answered, else 0.", sample.ready)
        yield _gauge("snapshot_generation", "Changes taken into the engine's arrays so far.", sample.generation)
        yield _gauge("leader", "1 while this replica leads, else 0.", sample.cluster is not None)
        if sample.cluster is not None:
            yield from _cluster(sample.cluster)
        shards = GaugeMetricFamily(
            f"{NAMESPACE}_shard_waiting_pods", "Gated pods of the shards that this replica leads.", labels=["shard"]
        )
        for shard, count in sample.shards.items():
            shards.add_metric([shard], count)
        yield shards
        if sample.certificate_end is not None:
            yield _gauge(
                "certificate_end_timestamp_seconds",
                "When the served certificate expires, in seconds since the epoch.",
                sample.certificate_end.timestamp(),
            )
        yield _internal_errors()
        yield _api_errors(sample.api_errors)
        yield from _informers(sample.informers)


def _cluster(sample: ClusterSample) -> Iterator[Metric]:
    """What the leader alone reports."""
    yield _gauge(
        "policy_disagreements",
        "Nodes whose Koordinator policy label and NodeResourceTopology name different policies.",
        sample.policy_disagreements,
    )
    yield _gauge("unknown_policies", "Nodes whose NUMA policy cannot be read.", sample.unknown_policies)
    yield _gauge("gated_pods", "Pods that only our gate keeps from scheduling.", sample.gated_pods)
    waiting = GaugeMetricFamily(
        f"{NAMESPACE}_waiting_pods", "Gated pods by namespace and reason.", labels=["pod_namespace", "reason"]
    )
    for labels, count in sample.waiting_pods.items():
        waiting.add_metric(labels, count)
    yield waiting
    yield _gauge("stuck_pods", "Pods pinned to nodes that can no longer take them.", sample.stuck_pods)
    scale_up = GaugeMetricFamily(
        f"{NAMESPACE}_scale_up_pods",
        "Gated pods for which a cluster autoscaler is asked for a node.",
        labels=["autoscaler"],
    )
    for autoscaler, count in sample.scale_up_pods.items():
        scale_up.add_metric([autoscaler], count)
    yield scale_up
    requests = GaugeMetricFamily(
        f"{NAMESPACE}_provisioning_requests",
        "ProvisioningRequests for waiting gangs, by what the cluster autoscaler answered.",
        labels=["answer"],
    )
    for answer, count in sample.provisioning_requests.items():
        requests.add_metric([answer], count)
    yield requests
    yield _gauge(
        "assumed_pods",
        "Pods whose resources are reserved although no object shows their node yet.",
        sample.assumed_count,
    )

    yield _gauge("preemption_paused", "1 while no pods are preempted, else 0.", sample.preemption_is_paused)
    yield _gauge(
        "nodes_without_topology",
        "Nodes without a NodeResourceTopology that lists NUMA nodes.",
        sample.nodes_without_topology,
    )
    yield _gauge(
        "nodes_with_stale_topology",
        "Nodes whose NodeResourceTopology was not written since a pod was bound there.",
        sample.nodes_with_stale_topology,
    )
    for unit, created in (("pod", sample.oldest_waiting_pod), ("gang", sample.oldest_waiting_gang)):
        if created is not None:
            text = f"When the oldest waiting {unit} was created, in seconds since the epoch."
            yield _gauge(f"oldest_waiting_{unit}_created_timestamp_seconds", text, created)
    yield from _rooms(sample.rooms)


def _rooms(rooms: Iterable[tuple[str, str, str, str, float, float | None]]) -> Iterator[Metric]:
    """Amounts in cores, bytes or pieces."""
    domain = ["topology", "level", "domain"]
    of_what = {
        "": ("in the cluster", []),
        "largest_domain_": ("in the domain of a level that has most of it", domain[:2]),
        "domain_": ("in a domain of a coarse level", domain),
    }
    families = {
        (kind, what): GaugeMetricFamily(
            f"{NAMESPACE}_{kind}{what}", f"{text} {where}, in cores, bytes or pieces.", labels=["resource", *labels]
        )
        for kind, (where, labels) in of_what.items()
        for what, text in (("free_amount", "What pods can still request"), ("numa_block", "The most on one NUMA node"))
    }
    for resource, *place, free, largest in rooms:
        kind = "" if not place[0] else "domain_" if place[2] else "largest_domain_"
        labels = [resource, *place[: len(of_what[kind][1])]]
        families[kind, "free_amount"].add_metric(labels, free)
        if largest is not None:
            families[kind, "numa_block"].add_metric(labels, largest)
    yield from families.values()


def _api_errors(errors: Mapping[tuple[str, str], int]) -> Metric:
    family = CounterMetricFamily(
        f"{NAMESPACE}_api_errors",
        "Calls to the API server that failed, by method and HTTP status.",
        labels=["method", "code"],
    )
    for labels, count in errors.items():
        family.add_metric(labels, count)
    return family


def _internal_errors() -> Metric:
    """All kinds start at 0, so that an alert on a rate sees the first fault, too."""
    family = CounterMetricFamily(
        f"{NAMESPACE}_internal_errors",
        "Faults of the webhook itself, by the kind of item that failed.",
        labels=["where"],
    )
    counts = internal_error_counts()
    for where in Where:
        family.add_metric([where.value], counts.get(where, 0))
    return family


def _informers(informers: Iterable[InformerSample]) -> Iterator[Metric]:
    columns: list[tuple[str, str, Callable[[InformerSample], float]]] = [
        ("informer_synced", "1 when the local copy is complete, else 0.", lambda i: i.synced),
        ("informer_objects", "Objects in the local copy.", lambda i: i.objects),
        ("informer_faulty_objects", "Objects that could not be used, or only in part.", lambda i: i.faulty_objects),
        (
            "informer_last_event_timestamp_seconds",
            "When the API server last sent anything about this resource; bookmarks come about every minute.",
            lambda i: i.last_event,
        ),
    ]
    for name, text, value in columns:
        family = GaugeMetricFamily(f"{NAMESPACE}_{name}", text, labels=["resource"])
        for informer in informers:
            family.add_metric([informer.resource], value(informer))
        yield family
    lists = CounterMetricFamily(
        f"{NAMESPACE}_informer_lists", "Complete lists made; more than one means that a watch could not be resumed.",
        labels=["resource"],
    )  # fmt: skip
    for informer in informers:
        lists.add_metric([informer.resource], informer.lists)
    yield lists


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{NAMESPACE}_{name}", text, value=float(value))
