"""The placement controller's metrics: how it tells of its work becomes counters and histograms."""

from typing import Final

from prometheus_client import Counter, Histogram
from prometheus_client.registry import CollectorRegistry

# A decision takes from a fifth of a millisecond to some tens for a large group.
_DECISION_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0)
# Creation times are whole seconds; who waits for others to end waits for as long as they run: up to a day.
_WAIT_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)


class PlacementMetrics:
    """Counts what it is told."""

    def __init__(self, registry: CollectorRegistry, namespace: str) -> None:
        self.pods_not_aligned: Final = Counter(
            "pods_not_aligned",
            "Pods that ask for a NUMA policy and that kubelets do not align, by what became of them.",
            ["verdict"],
            namespace=namespace,
            registry=registry,
        )
        self._rounds = Counter(
            "placement_cycles", "Rounds over the gated pods.", namespace=namespace, registry=registry
        )
        self._decisions = Histogram(
            "placement_decision_duration_seconds",
            "Time to find a place for a pod or group, or that there is none.",
            ["unit"],
            namespace=namespace,
            buckets=_DECISION_BUCKETS,
            registry=registry,
        )
        self._ungate = Counter(
            "pods_ungated", "Pods whose gate was taken away, by how.", ["how"], namespace=namespace, registry=registry
        )
        self._waited = Histogram(
            "gated_duration_seconds",
            "Time from a pod's creation until its gate was taken away.",
            namespace=namespace,
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )
        self._evicted = Counter("pods_evicted", "Stuck pods evicted.", namespace=namespace, registry=registry)
        self._hint_backfilled = Counter(
            "hints_backfilled",
            "Hints written into pods that were bound without one.",
            namespace=namespace,
            registry=registry,
        )
        self._corrected = Counter(
            "hints_corrected",
            "Hints of bound pods that were changed, removed or written again, by how.",
            ["how"],
            namespace=namespace,
            registry=registry,
        )

    def round(self) -> None:
        """A round has begun."""
        self._rounds.inc()

    def decided(self, unit: str, seconds: float) -> None:
        """A "pod" or a "group" was decided on."""
        self._decisions.labels(unit).observe(seconds)

    def ungated(self, how: str, waited: float) -> None:
        """A pod's gate is away."""
        self._ungate.labels(how).inc()
        self._waited.observe(waited)

    def not_aligned(self) -> None:
        """A pod was placed that its node's kubelet does not align."""
        self.pods_not_aligned.labels("allow").inc()

    def evicted(self) -> None:
        """A stuck pod was evicted."""
        self._evicted.inc()

    def hint_backfilled(self) -> None:
        """A pod that was bound without a hint has one."""
        self._hint_backfilled.inc()

    def corrected(self, how: str) -> None:
        """The hint of a bound pod is not what it was."""
        self._corrected.labels(how).inc()
