"""NUMA nodes other than those of its hint on which a pod may be, until its node's NRT has reported it.

A kubelet gives a pod the first NUMA nodes with room when the pod arrives. The replay is exact except for room that was
unknown when the hint was written:
1. Another pod ended while this one was on its way, or was rejected by its kubelet.
2. The NRT left open what is free (`Unreported.maybe_free`).
More room makes a kubelet prefer a lower NUMA node, never a higher one.

Alternatives are reserved for a limited time, because no other pod can use them. After that the hint is the best that is
known. They end
- two periods of the exporter after the binding, when the NRT should have reported the pod;
- earlier if the kubelet has shown nothing of the pod for much longer than an admission takes: it is not working, and
  the pod's NUMA nodes are not decided yet.
"""

from collections.abc import Iterable
from math import inf
from typing import Final

from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.formats.kubernetes.resident import ResidentPod

# A kubelet admits a pod, and writes its first status, within a second or two of its binding.
_SHOWN_SECONDS: Final = 30.0
_NOWHERE: Final[frozenset[int]] = frozenset()


def alternatives_end(pod: ResidentPod, age: float) -> float:
    """When a bound pod's alternatives end, by the API server's clock; inf if its time of binding is unknown.

    age: seconds from the binding until the NRT should have reported a pod that has started.
    """
    return inf if pod.bound_at is None else pod.bound_at + (age if pod.started else _SHOWN_SECONDS)


class Alternatives:
    """The alternatives of each pod (namespace/name), as NUMA ids."""

    def __init__(self) -> None:
        self._ids: dict[str, frozenset[int]] = {}

    def also(self, pod: str, numa_ids: Iterable[int]) -> bool:
        """Add NUMA nodes on which the pod may also be. True if any of them is new."""
        before = self._ids.get(pod, _NOWHERE)
        more = before.union(numa_ids)
        if more:
            self._ids[pod] = more
        return more != before

    def ids(self, pod: str) -> frozenset[int]:
        """The NUMA nodes, other than those of its hint, on which the pod may be; empty if there are none."""
        return self._ids.get(pod, _NOWHERE)

    def until(self, pod: ResidentPod, age: float) -> float:
        """When the alternatives of a bound pod end, as `alternatives_end` says; inf if it has none."""
        return alternatives_end(pod, age) if pod.key in self._ids else inf

    def __contains__(self, pod: str) -> bool:
        return pod in self._ids

    def forget(self, pod: str) -> None:
        """Remove the pod's alternatives: the pod is gone, or they are out of date."""
        self._ids.pop(pod, None)

    def widened(self, pod: str, hint: NumaAmounts) -> NumaAmounts:
        """The amounts to reserve, which suffice wherever the pod is: its hint, and its total on each alternative."""
        ids = self._ids.get(pod, _NOWHERE)
        if not ids:
            return hint
        return {**dict.fromkeys(sorted(ids), added(hint.values())), **hint}
