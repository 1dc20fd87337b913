"""What pods hold of a node's NUMA nodes and its NodeResourceTopology does not show yet.

A pod's hint says what it holds. Whoever publishes the NRT may count that, later or never:
- koordlet publishes totals and counts no pod; the cluster's state takes the hints of its pods off by itself.
- Other exporters take off what the kubelet allocated, as of their last scan, of the resources its managers give away.

1. A pod bound after the NRT was written is in no scan yet. Of the others those count that the fingerprint covers;
   where there is none, or none that can be read, those bound long enough before the NRT was written.
2. All that the NRT shows as taken may be what these pods hold; what they hold beyond that it does not count: all their
   memory where the kubelet has no memory manager, all their CPUs where no CPU is given away. The pods bound last are
   taken to be those.
3. Uncounted is the rest: every other pod, and what step 2 left.

Times are seconds by the API server's clock, at which both a pod's binding and an NRT's writing are stamped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from webhook.engine.sums import NumaAmounts
from webhook.model.nrt import NodeTopology, Publisher
from webhook.model.resident import ResidentPod


@dataclass(frozen=True, slots=True)
class CountingTimes:
    """How long it takes until an NRT without a readable fingerprint has counted a pod."""

    settle: float = 10.0
    """An NRT written so many seconds after the pod was bound has counted it: a kubelet admits within one or two, and an
    exporter writes within a few of its scan."""
    age: float = 120.0
    """One written sooner has, if it stays as it is for so long: two periods of 60 s, the exporters' default."""


@dataclass(frozen=True, slots=True)
class Uncounted:
    """What is to be taken off the NRT's numbers."""

    amounts: Mapping[str, NumaAmounts]
    """Pod (namespace/name) -> NUMA id -> resource -> amount; only pods with something uncounted."""
    until: float | None
    """When this may change by time alone."""


NOTHING: Final = Uncounted({}, None)


def uncounted(
    topology: NodeTopology | None,
    pods: Iterable[ResidentPod],
    covered: frozenset[str] | None,
    times: CountingTimes,
    now: float,
) -> Uncounted:
    """What the pods bound to one node hold that its NRT does not show at `now`.

    covered: the pods its fingerprint stands for; None where it has none, or none that can be read.
    """
    if topology is not None and topology.publisher is Publisher.TOTAL:
        return NOTHING
    hinted = sorted((pod for pod in pods if pod.hint), key=lambda pod: (pod.bound_at or 0, pod.key), reverse=True)
    amounts: dict[str, NumaAmounts] = {}
    counted: list[ResidentPod] = []
    changes: list[float] = []
    for pod in hinted:
        judged, change = _is_counted(pod, topology, covered, times, now)
        if judged:
            counted.append(pod)
        else:
            amounts[pod.key] = _held(pod)
        if change is not None:
            changes.append(change)
    if topology is not None and counted:
        amounts.update(_beyond(topology, counted))
    return Uncounted(amounts, min(changes, default=None))


def _is_counted(
    pod: ResidentPod,
    topology: NodeTopology | None,
    covered: frozenset[str] | None,
    times: CountingTimes,
    now: float,
) -> tuple[bool, float | None]:
    """Whether the NRT can have counted the pod, and when time alone changes that."""
    if topology is None or not pod.exclusive_resources:
        return False, None
    written, bound = topology.written_at, pod.bound_at
    if written is not None and bound is not None and written < bound:
        return False, None
    if covered is not None:
        return pod.key in covered, None
    if bound is None or (written is not None and written >= bound + times.settle):
        return True, None
    aged = bound + times.age
    return now >= aged, None if now >= aged else aged


def _beyond(topology: NodeTopology, counted: Iterable[ResidentPod]) -> Mapping[str, NumaAmounts]:
    """What the pods hold beyond what the NRT shows as taken on the whole node, of the first pods first.

    On the whole node: the kubelet may have chosen other NUMA nodes than the hints foretold.
    """
    missing: dict[str, int] = {}
    for pod in counted:
        for resources in _held(pod).values():
            for resource, amount in resources.items():
                missing[resource] = missing.get(resource, 0) + amount
    for zone in topology.zones:
        for resource, zone_amounts in zone.resources.items():
            if resource in missing:
                missing[resource] -= zone_amounts.allocatable - zone_amounts.available
    beyond: dict[str, NumaAmounts] = {}
    for pod in counted:
        rest: dict[int, dict[str, int]] = {}
        for numa_id, resources in _held(pod).items():
            for resource, amount in resources.items():
                part = min(amount, missing[resource])
                if part > 0:
                    missing[resource] -= part
                    rest.setdefault(numa_id, {})[resource] = part
        if rest:
            beyond[pod.key] = rest
    return beyond


def _held(pod: ResidentPod) -> NumaAmounts:
    return dict(pod.hint or ())
