"""Pods that ended on a node, and whose resources its NodeResourceTopology may still show as taken.

A kubelet gives what a pod held to the next one as soon as it has ended; the NRT follows with the exporter's next scan.
A pod that ended and is still in the API server says when; of one that was deleted it is remembered that it was there.
"""

from collections.abc import Sequence
from typing import Final

from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod

# More than end on one node between two scans, as a rule.
_LATEST: Final = 8


class EndedPods:
    """The pods that ended last, by node."""

    def __init__(self) -> None:
        self._on: dict[str, tuple[ResidentPod, ...]] = {}

    def note(self, pod: ResidentPod) -> None:
        """The pod, bound to a node, has ended or was deleted."""
        others = [other for other in self._on.get(pod.node, ()) if other.uid != pod.uid]
        known = len(others) < len(self._on.get(pod.node, ()))
        if pod.terminal and pod.ended_at is None:
            return  # a kubelet rejected it: it never held anything
        if known and not pod.terminal:
            return  # deleted after it ended
        later = next((n for n, other in enumerate(others) if _end(other) <= _end(pod)), len(others))
        self._on[pod.node] = (*others[:later], pod, *others[later:])[:_LATEST]

    def that_may_count(self, topology: NodeTopology, settle: float) -> Sequence[ResidentPod]:
        """Those that may have lived when the node's NRT was made, the last one first.

        settle: seconds after a pod's end in which an NRT may still be written that has not seen it.
        """
        written = topology.written_at
        return [
            pod
            for pod in self._on.get(topology.node, ())
            if written is None
            or ((pod.bound_at or 0) <= written and (pod.ended_at is None or written <= pod.ended_at + settle))
        ]


def _end(pod: ResidentPod) -> int:
    """When it ended; of one that was deleted only the order is known: at the earliest when it was bound."""
    return pod.ended_at if pod.ended_at is not None else pod.bound_at or 0
