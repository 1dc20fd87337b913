"""Pods that ended on a node, and whose resources its NodeResourceTopology may still show as taken.

As soon as a pod has ended, a kubelet gives what it held to the next pod. The NRT follows with the exporter's next scan.
An ended pod that is still in the API server shows when it ended. A deleted pod shows nothing, so it is recorded here.
"""

from collections.abc import Sequence
from typing import Final

from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod

# Rarely do more pods end on one node between two scans.
_LATEST: Final = 8


class EndedPods:
    """The last pods that ended on each node, the latest first."""

    def __init__(self) -> None:
        self._on: dict[str, tuple[ResidentPod, ...]] = {}

    def note(self, pod: ResidentPod) -> None:
        """Record a bound pod that has ended or was deleted."""
        others = [other for other in self._on.get(pod.node, ()) if other.uid != pod.uid]
        known = len(others) < len(self._on.get(pod.node, ()))
        if pod.terminal and pod.ended_at is None:
            return  # rejected by its kubelet: it never held anything
        if known and not pod.terminal:
            return  # deleted after it ended
        later = next((n for n, other in enumerate(others) if _end(other) <= _end(pod)), len(others))
        self._on[pod.node] = (*others[:later], pod, *others[later:])[:_LATEST]

    def that_may_count(self, topology: NodeTopology, settle: float) -> Sequence[ResidentPod]:
        """The pods that may have been alive when the exporter scanned for this NRT, the last ended first.

        settle: seconds after a pod's end in which an NRT may be written that does not show the end yet.
        """
        written = topology.written_at
        return [
            pod
            for pod in self._on.get(topology.node, ())
            if written is None
            or ((pod.bound_at or 0) <= written and (pod.ended_at is None or written <= pod.ended_at + settle))
        ]


def _end(pod: ResidentPod) -> int:
    """When the pod ended. For a deleted pod that is unknown: the earliest possible time, its binding, stands for it."""
    return pod.ended_at if pod.ended_at is not None else pod.bound_at or 0
