"""What pods hold that their node's NodeResourceTopology does not show yet, and what it shows though pods have ended.

A pod's allocation says what it holds. The publisher of the NRT reports that, later or never:
- koordlet publishes totals and reports no pod. The cluster state subtracts the allocations of its pods itself.
- Other exporters subtract what the kubelet had allocated at their last scan, of the resources that its managers
  allocate.

1. A pod bound after the NRT was written is in no scan yet. Of the others, those are reported that the fingerprint
   covers. Without a readable fingerprint, those that were bound long enough before the NRT was written. So too if the
   covered name may still mean an earlier pod (see `node_state`).
2. Pods that the fingerprint covers and that have ended since hold nothing: a kubelet gives what they held to the next
   pod at once. It is given back if their NUMA nodes are certain (see `known_placements`).
3. What the NRT shows as taken may be what the reported pods hold. What they hold beyond that is unreported: all their
   memory if the kubelet has no memory manager, all their CPUs if no CPU is allocated. It does not show what init
   containers had and the running ones have not. Of the rest, the pods bound last are assumed to be the ones that it
   does not show.
4. Unreported are all other pods, and the rest of step 3. If it is unknown whether a pod is reported, a living pod
   counts as unreported and an ended one as reported, so that nothing is assigned twice. A NUMA node may then have more
   free than the numbers say, and a kubelet may prefer it to the replayed one.

Times are in seconds by the API server's clock, which stamps both the binding of a pod and the writing of an NRT.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.formats.kubernetes.pod_resources import ContainerKind
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.resources import CPU, is_device
from webhook.records import record
from webhook.state.assumed.free_bounds import together
from webhook.state.assumed.placement_search import most_given_to, taken_on

NOWHERE: Final[Mapping[str, NumaAmounts]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ReportingTimes:
    """How long it takes until an NRT without a readable fingerprint reports a pod."""

    settle: float = 10.0
    """Seconds. An NRT written this long after the pod was bound reports it: a kubelet admits within one or two seconds,
    and an exporter writes a few seconds after its scan."""
    age: float = 120.0
    """Seconds. An NRT written earlier reports the pod if it stays unchanged until this long after the binding: two
    periods of 60 s, the exporters' default."""


@record
class Unreported:
    """How the amounts of one node differ from its NRT."""

    amounts: Mapping[str, NumaAmounts]
    """Pod (namespace/name) -> NUMA id -> resource -> amount; only pods with something unreported."""
    until: float | None
    """When time alone may change this; None: never."""
    ended: NumaAmounts = field(default_factory=dict)
    """NUMA id -> resource -> amount shown as taken, but held by pods that have ended."""
    maybe_free: NumaAmounts = field(default_factory=dict)
    """NUMA id -> resource -> amount shown as taken, but perhaps held by pods that have ended."""
    maybe_counted: Mapping[str, NumaAmounts] = field(default_factory=dict)
    """The part of `amounts` that the NRT may show already."""


NOTHING: Final = Unreported({}, None)


def unreported(
    topology: NodeTopology | None,
    pods: Iterable[ResidentPod],
    covered: frozenset[str] | None,
    times: ReportingTimes,
    now: float,
    ended: Sequence[ResidentPod] = (),
    certain: Mapping[str, NumaAmounts] = NOWHERE,
) -> Unreported:
    """What the pods bound to one node hold that its NRT does not show at `now`.

    covered: the keys of the pods that the fingerprint covers; None if there is no readable one. ended: the ended pods
    that may have been alive at the NRT's scan, also earlier ones of a living pod's name. certain: the placements of the
    covered pods for which they are certain.
    """
    earlier = {pod.key for pod in ended}
    if topology is not None and topology.publisher is Publisher.TOTAL:
        return NOTHING
    living = list(pods)
    allocated = sorted(
        (pod for pod in living if pod.allocation), key=lambda pod: (pod.bound_at or 0, pod.key), reverse=True
    )
    amounts: dict[str, NumaAmounts] = {}
    counted: list[ResidentPod] = []
    changes: list[float] = []
    maybe_counted: dict[str, NumaAmounts] = {}
    for pod in allocated:
        judged, change = _is_reported(pod, topology, covered, earlier, times, now)
        if judged:
            counted.append(pod)
        else:
            amounts[pod.key] = held(pod)
        if change is not None:
            changes.append(change)
            maybe_counted[pod.key] = held(pod)
    if topology is None:
        return Unreported(amounts, min(changes, default=None))
    shown = [pod for pod in ended if covered is None or pod.key in covered]
    given_back = together(certain[pod.key] for pod in shown if pod.key in certain)
    maybe_free: NumaAmounts = together(_anywhere(topology, pod, covered) for pod in shown if pod.key not in certain)
    if covered is not None and not covered <= {pod.key for pod in (*living, *shown)}:
        maybe_free = taken_on(topology)  # some covered pods are not remembered any more
    if counted:
        beyond = _beyond(topology, counted, added(given_back.values()))
        amounts.update(beyond)
        maybe_counted.update(beyond)
    return Unreported(amounts, min(changes, default=None), given_back, maybe_free, maybe_counted)


def not_reported(
    topology: NodeTopology,
    pods: Iterable[ResidentPod],
    covered: frozenset[str] | None,
    times: ReportingTimes,
    now: float,
    ended: Iterable[ResidentPod],
) -> tuple[Sequence[ResidentPod], float | None]:
    """The unreported pods of one node at `now`, allocated or not, and when time alone changes that; None: never.

    Arguments as for `unreported`. If the publisher reports totals: the pods without an allocation.
    """
    if topology.publisher is Publisher.TOTAL:
        return [pod for pod in pods if pod.unallocated], None
    earlier = {pod.key for pod in ended}
    judged = [(pod, *_is_reported(pod, topology, covered, earlier, times, now)) for pod in pods]
    changes = [change for _, _, change in judged if change is not None]
    return [pod for pod, counted, _ in judged if not counted], min(changes, default=None)


def is_counted(pod: ResidentPod, topology: NodeTopology, covered: frozenset[str]) -> bool:
    """Whether the NRT reports what a living pod holds. covered: the keys of the pods that its fingerprint covers."""
    return pod.exclusive_resources and pod.key in covered and not is_older(topology, pod)


def held(pod: ResidentPod) -> NumaAmounts:
    """What the pod holds by its allocation: NUMA id -> resource -> amount; empty without an allocation."""
    return dict(pod.allocation or ())


def is_older(topology: NodeTopology, pod: ResidentPod) -> bool:
    """Whether the NRT was certainly written before the pod was bound."""
    written, bound = topology.written_at, pod.bound_at
    return written is not None and bound is not None and written < bound


def is_long_after(topology: NodeTopology, pod: ResidentPod, settle: float) -> bool:
    """Whether the NRT was written so long after the pod was bound that it reports the pod, not what was there before.

    settle: as in `ReportingTimes`.
    """
    written, bound = topology.written_at, pod.bound_at
    return bound is None or (written is not None and bound + settle <= written)


def _is_reported(
    pod: ResidentPod,
    topology: NodeTopology | None,
    covered: frozenset[str] | None,
    earlier: Collection[str],
    times: ReportingTimes,
    now: float,
) -> tuple[bool, float | None]:
    """Whether the NRT can report the pod, and when time alone changes that; None: never.

    earlier: the keys under which it may still report a pod that has ended.
    """
    if topology is None or not pod.exclusive_resources:
        return False, None
    if is_older(topology, pod):
        return False, None
    if covered is not None and (pod.key not in covered or pod.key not in earlier):
        return pod.key in covered, None
    if pod.bound_at is None or is_long_after(topology, pod, times.settle):
        return True, None
    aged = pod.bound_at + times.age
    return now >= aged, None if now >= aged else aged


def _anywhere(topology: NodeTopology, pod: ResidentPod, covered: frozenset[str] | None) -> NumaAmounts:
    """All that the pod held, on every NUMA node; its allocation, if it has one and the NRT has no fingerprint."""
    if covered is None and topology.fingerprint is None and pod.allocation:
        return held(pod)
    amounts = added(held(pod).values()) if pod.allocation else most_given_to(pod, topology)
    return {zone.id: amounts for zone in topology.zones} if amounts else {}


def _beyond(
    topology: NodeTopology, counted: Iterable[ResidentPod], ended: Mapping[str, int]
) -> Mapping[str, NumaAmounts]:
    """What the pods hold beyond what the NRT shows as taken on the whole node.

    What exporters never see is the first to be beyond, then what the first pods hold. The whole node is compared
    because the kubelet may have chosen other NUMA nodes than the allocations say. ended: the part of the taken amounts
    that
    pods held which have ended.
    """
    missing = added(amounts for pod in counted for amounts in held(pod).values())
    for resource, amount in ended.items():
        if resource in missing:
            missing[resource] += amount
    for amounts in taken_on(topology).values():
        for resource, amount in amounts.items():
            if resource in missing:
                missing[resource] -= amount
    beyond: dict[str, NumaAmounts] = {}
    if max(missing.values(), default=0) <= 0:
        return beyond
    counted = list(counted)
    for most in (_hidden, _all):
        for pod in counted:
            rest = _part(held(pod), beyond.get(pod.key, {}), dict(most(pod)), missing)
            if rest:
                beyond[pod.key] = rest
    return beyond


def _part(whole: NumaAmounts, before: NumaAmounts, most: dict[str, int], missing: dict[str, int]) -> NumaAmounts:
    """A part of what a pod holds: what was taken before, and as much as is missing, of each resource `most` at most.

    What is taken is no longer missing.
    """
    part = {numa_id: dict(amounts) for numa_id, amounts in before.items()}
    for numa_id, resources in whole.items():
        for resource, amount in resources.items():
            already = part.get(numa_id, {}).get(resource, 0)
            more = min(amount - already, missing[resource], most.get(resource, 0))
            if more > 0:
                missing[resource] -= more
                most[resource] -= more
                part.setdefault(numa_id, {})[resource] = already + more
    return part


def _all(pod: ResidentPod) -> Mapping[str, int]:
    return added(held(pod).values())


def _hidden(pod: ResidentPod) -> Mapping[str, int]:
    """What the pod holds by its allocation and no exporter sees: CPUs and devices beyond its running containers'.

    The kubelet's pod resources API does not list init containers, but what they had stays the pod's until it ends.
    Source: kubernetes pkg/kubelet/apis/podresources (List), pkg/kubelet/cm/cpumanager and devicemanager.
    """
    if all(container.kind is not ContainerKind.INIT for container in pod.containers):
        return {}
    running = added(container.requests for container in pod.containers if container.kind is not ContainerKind.INIT)
    return {
        resource: amount - running.get(resource, 0)
        for resource, amount in added(held(pod).values()).items()
        if (resource == CPU or is_device(resource)) and amount > running.get(resource, 0)
    }
