"""What pods hold of a node's NUMA nodes and its NodeResourceTopology does not show yet, and what it shows too much.

A pod's hint says what it holds. Whoever publishes the NRT may count that, later or never:
- koordlet publishes totals and counts no pod; the cluster's state takes the hints of its pods off by itself.
- Other exporters take off what the kubelet allocated, as of their last scan, of the resources its managers give away.

1. A pod bound after the NRT was written is in no scan yet. Of the others those count that the fingerprint covers;
   where there is none, or none that can be read, those bound long enough before the NRT was written.
2. Pods that the fingerprint covers and that have ended since hold nothing any more: a kubelet gives what they held to
   the next pod at once. It is given back if it is certain where they were (see `reported_placement`).
3. All that the NRT shows as taken may be what the pods hold; what they hold beyond that it does not count: all their
   memory where the kubelet has no memory manager, all their CPUs where no CPU is given away. The pods bound last are
   taken to be those.
4. Unreported is the rest: every other pod, and what step 3 left. Where it is not known whether a pod is counted, it is
   taken not to be if it lives, and to be if it has ended: nothing is promised twice. A NUMA node may then have more
   than it seems to, and a kubelet prefer it to the one replayed.

Times are seconds by the API server's clock, at which both a pod's binding and an NRT's writing are stamped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from webhook.engine.assumed.free_bounds import together
from webhook.engine.assumed.placement_search import taken_on
from webhook.engine.assumed.possible_placements import most_given_to
from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.model.nrt import NodeTopology, Publisher
from webhook.model.resident import ResidentPod

NOWHERE: Final[Mapping[str, NumaAmounts]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ReportingTimes:
    """How long it takes until an NRT without a readable fingerprint has counted a pod."""

    settle: float = 10.0
    """An NRT written so many seconds after the pod was bound has counted it: a kubelet admits within one or two, and an
    exporter writes within a few of its scan."""
    age: float = 120.0
    """One written sooner has, if it stays as it is for so long: two periods of 60 s, the exporters' default."""


@dataclass(frozen=True, slots=True)
class Unreported:
    """What is to be taken off the NRT's numbers."""

    amounts: Mapping[str, NumaAmounts]
    """Pod (namespace/name) -> NUMA id -> resource -> amount; only pods with something unreported."""
    until: float | None
    """When this may change by time alone."""
    ended: NumaAmounts = field(default_factory=dict)
    """NUMA id -> resource -> amount: shown as taken by pods that have ended."""
    maybe_free: NumaAmounts = field(default_factory=dict)
    """NUMA id -> resource -> amount: shown as taken perhaps by pods that have ended."""
    maybe_counted: Mapping[str, NumaAmounts] = field(default_factory=dict)
    """Of `amounts` what the NRT may show already."""


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

    covered: the pods its fingerprint stands for; None where it has none, or none that can be read. ended: the pods that
    have ended and may have lived when the NRT was made. certain: where covered pods are, of those for which that is.
    """
    if topology is not None and topology.publisher is Publisher.TOTAL:
        return NOTHING
    living = list(pods)
    hinted = sorted((pod for pod in living if pod.hint), key=lambda pod: (pod.bound_at or 0, pod.key), reverse=True)
    amounts: dict[str, NumaAmounts] = {}
    counted: list[ResidentPod] = []
    changes: list[float] = []
    maybe_counted: dict[str, NumaAmounts] = {}
    for pod in hinted:
        judged, change = _is_reported(pod, topology, covered, times, now)
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
        maybe_free = taken_on(topology)  # of some it is forgotten that they were there
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
) -> tuple[Sequence[ResidentPod], float | None]:
    """The pods of one node that its NRT has not counted at `now`, hint or not, and when time alone changes that.

    Arguments as of `unreported`. Where totals are published: those of ours without a hint.
    """
    if topology.publisher is Publisher.TOTAL:
        return [pod for pod in pods if pod.unhinted], None
    judged = [(pod, *_is_reported(pod, topology, covered, times, now)) for pod in pods]
    changes = [change for _, _, change in judged if change is not None]
    return [pod for pod, counted, _ in judged if not counted], min(changes, default=None)


def is_counted(pod: ResidentPod, topology: NodeTopology, covered: frozenset[str]) -> bool:
    """Whether the NRT, whose fingerprint stands for the covered pods, has counted what a living pod holds."""
    return pod.exclusive_resources and pod.key in covered and not is_older(topology, pod)


def held(pod: ResidentPod) -> NumaAmounts:
    """What the pod's hint says that it holds: NUMA id -> resource -> amount."""
    return dict(pod.hint or ())


def is_older(topology: NodeTopology, pod: ResidentPod) -> bool:
    """Whether the NRT is known to be from before the pod was bound."""
    written, bound = topology.written_at, pod.bound_at
    return written is not None and bound is not None and written < bound


def _is_reported(
    pod: ResidentPod,
    topology: NodeTopology | None,
    covered: frozenset[str] | None,
    times: ReportingTimes,
    now: float,
) -> tuple[bool, float | None]:
    """Whether the NRT can have counted the pod, and when time alone changes that."""
    if topology is None or not pod.exclusive_resources:
        return False, None
    if is_older(topology, pod):
        return False, None
    if covered is not None:
        return pod.key in covered, None
    written, bound = topology.written_at, pod.bound_at
    if bound is None or (written is not None and written >= bound + times.settle):
        return True, None
    aged = bound + times.age
    return now >= aged, None if now >= aged else aged


def _anywhere(topology: NodeTopology, pod: ResidentPod, covered: frozenset[str] | None) -> NumaAmounts:
    """All that the pod held, on every NUMA node; where its hint says, if no fingerprint could ever contradict it."""
    if covered is None and topology.fingerprint is None and pod.hint:
        return held(pod)
    amounts = added(held(pod).values()) if pod.hint else most_given_to(pod, topology)
    return {zone.id: amounts for zone in topology.zones} if amounts else {}


def _beyond(
    topology: NodeTopology, counted: Iterable[ResidentPod], ended: Mapping[str, int]
) -> Mapping[str, NumaAmounts]:
    """What the pods hold beyond what the NRT shows as taken on the whole node, of the first pods first.

    On the whole node: the kubelet may have chosen other NUMA nodes than the hints foretold. ended: what of that is
    known to be taken by pods that have ended.
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
    for pod in counted:
        rest: dict[int, dict[str, int]] = {}
        for numa_id, resources in held(pod).items():
            for resource, amount in resources.items():
                part = min(amount, missing[resource])
                if part > 0:
                    missing[resource] -= part
                    rest.setdefault(numa_id, {})[resource] = part
        if rest:
            beyond[pod.key] = rest
    return beyond
