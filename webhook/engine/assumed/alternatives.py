"""NUMA nodes other than those of its hint on which a pod may be, until its node's NRT counts it or should have.

A kubelet gives a pod the first NUMA nodes with room at the moment it arrives. That is replayed exactly, but for room
that nobody knew of when the hint was written:
1. Another pod ended while this one was on its way, or turned out to have been rejected.
2. The NRT left open what is free (`Unreported.doubtful`).
More room makes a kubelet prefer a lower NUMA node, never a higher one.

The doubt does not last for ever: after some time without an answer the hint is the best that is known, and room that
nobody may use is lost to all. An exporter has had its time when two of its periods have passed since the binding. A pod
whose kubelet has shown nothing of it for much longer than an admission takes has none that works: where it will be is
not decided yet.
"""

from collections.abc import Iterable
from math import inf
from typing import Final

from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.model.resident import ResidentPod

# A kubelet admits a pod, and writes its first status, within a second or two of its binding.
_SHOWN_SECONDS: Final = 30.0
_NOWHERE: Final[frozenset[int]] = frozenset()


def doubt_ends(pod: ResidentPod, age: float) -> float:
    """When a doubt about where a bound pod is ends, by the API server's clock. age: seconds."""
    return inf if pod.bound_at is None else pod.bound_at + (age if pod.started else _SHOWN_SECONDS)


class Alternatives:
    """By pod (namespace/name): further NUMA ids."""

    def __init__(self) -> None:
        self._ids: dict[str, frozenset[int]] = {}

    def also(self, pod: str, numa_ids: Iterable[int]) -> bool:
        """The pod may as well be on these NUMA nodes; whether that is news."""
        before = self._ids.get(pod, _NOWHERE)
        more = before.union(numa_ids)
        if more:
            self._ids[pod] = more
        return more != before

    def ids(self, pod: str) -> frozenset[int]:
        """The NUMA nodes, other than those of its hint, on which the pod may be."""
        return self._ids.get(pod, _NOWHERE)

    def until(self, pod: ResidentPod, age: float) -> float:
        """When the doubt about a bound pod ends, by the API server's clock; inf where there is none. age: seconds."""
        return doubt_ends(pod, age) if pod.key in self._ids else inf

    def __contains__(self, pod: str) -> bool:
        return pod in self._ids

    def forget(self, pod: str) -> None:
        """The pod is gone, or what is kept of it is no more."""
        self._ids.pop(pod, None)

    def widened(self, pod: str, hint: NumaAmounts) -> NumaAmounts:
        """What must be kept for the pod wherever it is: on each further NUMA node all that it holds."""
        ids = self._ids.get(pod, _NOWHERE)
        if not ids:
            return hint
        return {**dict.fromkeys(sorted(ids), added(hint.values())), **hint}
