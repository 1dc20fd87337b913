"""The placement controller's metrics: counters and histograms of its work."""

from typing import Final

from prometheus_client import Counter, Histogram
from prometheus_client.registry import CollectorRegistry

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
    """The counters and histograms that the controllers feed."""

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
            "Hints written into pods that were bound without one.",
            namespace=namespace,
            registry=registry,
        )
        self._corrected = Counter(
            "hints_corrected",
            "Hints of bound pods that were changed, removed or written again, by kind of change.",
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

    def hint_backfilled(self) -> None:
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
