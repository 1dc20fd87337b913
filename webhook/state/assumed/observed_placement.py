"""Where bound pods are, and how that is known: from their node's NRT, from a node agent, or from a prediction.

KAI-Scheduler's exporter writes into a pod what the kubelet gave it (`webhook.formats.kai_placement`). That is better
than any prediction, if it is true. But any user who can update the pod can write it, and an agent may be late. So

1. it takes no room away from the reservations. Until the node's NodeResourceTopology (NRT) reports the pod, its room is
   reserved where it was predicted, and also where it was observed (`reserved_also`).
2. it counts for where the pod is as soon as the NRT reports the pod, and if the NRT can agree (`numa_nodes_on`):
   a. The pod has started, so that an agent can have seen it.
   b. The NRT has such NUMA nodes, and its kubelet gives such amounts.
   c. Where the NRT's sums have confirmed a prediction, they must be just as right with all observations in its place:
      of equal pods, two may have been mistaken for each other.
   d. Beside what the NRT has confirmed of other pods, it shows as taken at least what all observations together say.
      Those that say too much of a NUMA node are ignored together: one of them is wrong.
3. nothing is written because of it, and no other pod's NUMA nodes are derived from it.

So a false observation can never lead to a NUMA node being given twice. It can mislead about its own pod where the NRT
leaves several placements possible: which pods preemption would end, and what people are shown.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import Enum, StrEnum
from typing import Final

from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.formats.koordinator.numa_allocation import up_to
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.resources import CPU, is_device
from webhook.records import record
from webhook.state.assumed.free_bounds import together
from webhook.state.assumed.known_placements import Certainty, Known, credible
from webhook.state.assumed.placement_search import given_to, most_given_to, taken_on


class NUMASource(StrEnum):
    """How the NUMA nodes of a bound pod are known."""

    REPORTED = "Reported"
    """Its node's NRT leaves only these possible."""
    OBSERVED = "Observed"
    """A node agent saw it there."""
    ALLOCATED = "Allocated"
    """By its NUMA allocation: this service's, or Koordinator's scheduler's."""
    PREDICTED = "Predicted"
    """It has no allocation, and its kubelet's choice was replayed."""


class Ignored(Enum):
    """Why an observation does not count."""

    UNREADABLE = "it cannot be read"
    NOT_STARTED = "no container of the pod has started"
    NOT_PUBLISHED = "no NodeResourceTopology shows what pods hold there"
    IMPOSSIBLE = "the NodeResourceTopology has no such NUMA nodes, or less on them"
    OTHER_AMOUNTS = "the kubelet gives the pod other amounts"
    NOT_REPORTED = "the NodeResourceTopology does not report the pod yet"
    CONFIRMED_ELSEWHERE = "the NodeResourceTopology confirms other NUMA nodes"
    NOT_TAKEN = "the NodeResourceTopology shows less as taken there"


@record
class PodNUMANodes:
    """The NUMA nodes of a bound pod."""

    numa: NumaAmounts
    """NUMA id -> resource -> amount; empty if they are unknown."""
    source: NUMASource | None
    """None: they are unknown."""
    ignored: Ignored | None = None
    """Why its observation does not count; None if it counts, or there is none."""


_UNKNOWN: Final = PodNUMANodes({}, None)


def numa_nodes_on(
    topology: NodeTopology | None,
    pods: Collection[ResidentPod],
    unreported: Collection[str],
    known: Mapping[str, Known],
    replayed: Mapping[str, NumaAmounts],
) -> Mapping[str, PodNUMANodes]:
    """The NUMA nodes of the pods bound to one node, by key.

    unreported: the pods that its NRT does not report. known: what is known of the pods with an allocation. replayed:
    what the kubelet certainly gave to those without.
    """
    found = {pod.key: _without_observation(pod, topology, known.get(pod.key), replayed) for pod in pods}
    observed = {pod.key: dict(pod.observed) for pod in pods if pod.observed is not None}
    if observed:
        for key, why in _judged(topology, [pod for pod in pods if pod.key in observed], unreported, known).items():
            one = found[key]
            if why is not None:
                found[key] = replace(one, ignored=why)
            elif one.source is not NUMASource.REPORTED or one.numa.keys() != observed[key].keys():
                found[key] = PodNUMANodes(observed[key], NUMASource.OBSERVED)
    return found


def reserved_also(pod: ResidentPod, topology: NodeTopology | None, numa: NumaAmounts) -> NumaAmounts:
    """What to reserve for an unreported pod on the NUMA nodes where it was observed and nothing is reserved for it.

    At most its requests, so that nobody can take a node by naming all its NUMA nodes. numa: what is reserved for it.
    """
    if topology is None or topology.publisher is Publisher.TOTAL or _why_not_seen(pod, topology) is not None:
        return {}
    shares = pod.observed or ()
    if len(shares) == 1:  # what its init containers had is there, too, and no agent sees it
        shares = up_to(((shares[0][0], most_given_to(pod, topology)),), pod.requests)
    return {numa_id: amounts for numa_id, amounts in shares if numa_id not in numa}


def _without_observation(
    pod: ResidentPod, topology: NodeTopology | None, known: Known | None, replayed: Mapping[str, NumaAmounts]
) -> PodNUMANodes:
    if topology is not None and topology.publisher is Publisher.TOTAL:
        # The service subtracts exactly this.
        return PodNUMANodes(dict(pod.allocation), NUMASource.ALLOCATED) if pod.allocation else _UNKNOWN
    if known is not None and known.uid == pod.uid:
        if known.certainty is Certainty.UNCERTAIN:
            return _UNKNOWN
        if known.certainty is Certainty.CONFIRMED:
            return PodNUMANodes(known.numa, NUMASource.REPORTED)
    if allocated := credible(pod, topology).allocation:
        return PodNUMANodes(dict(allocated), NUMASource.ALLOCATED)
    if known is not None and known.uid == pod.uid and known.numa:
        return PodNUMANodes(known.numa, NUMASource.PREDICTED)
    numa = replayed.get(pod.key)
    return PodNUMANodes(numa, NUMASource.PREDICTED) if numa else _UNKNOWN


def _judged(
    topology: NodeTopology | None,
    pods: Iterable[ResidentPod],
    unreported: Collection[str],
    known: Mapping[str, Known],
) -> Mapping[str, Ignored | None]:
    """For each observed pod, why its observation does not count; None if it does."""
    found = {pod.key: _why_not(pod, topology, unreported) for pod in pods}
    seen = {pod.key: dict(pod.observed or ()) for pod in pods if found[pod.key] is None}
    if topology is None or not seen:
        return found
    taken = _by_cell(taken_on(topology))
    confirmed = {key: one.numa for key, one in known.items() if one.certainty is Certainty.CONFIRMED}
    moved = {key for key, numa in seen.items() if key in confirmed and numa.keys() != confirmed[key].keys()}
    after = _by_cell(together((confirmed | {key: seen[key] for key in moved}).values()))
    changed = {cell for key in moved for numa in (seen[key], confirmed[key]) for cell in _by_cell(numa)}
    if any(after.get(cell, 0) != taken[cell] for cell in changed & taken.keys()):
        found |= dict.fromkeys(moved, Ignored.CONFIRMED_ELSEWHERE)
        seen = {key: numa for key, numa in seen.items() if key not in moved}
    held = _by_cell(together((confirmed | seen).values()))
    too_much = {cell for cell, amount in taken.items() if held.get(cell, 0) > amount}
    for key, numa in seen.items():
        if not too_much.isdisjoint(_by_cell(numa)):
            found[key] = Ignored.NOT_TAKEN
    return found


def _by_cell(numa: NumaAmounts) -> dict[tuple[int, str], int]:
    return {(numa_id, name): amount for numa_id, amounts in numa.items() for name, amount in amounts.items()}


def _why_not(pod: ResidentPod, topology: NodeTopology | None, unreported: Collection[str]) -> Ignored | None:
    if topology is None or topology.publisher is Publisher.TOTAL:
        return Ignored.NOT_PUBLISHED
    if (why := _why_not_seen(pod, topology)) is not None:
        return why
    return Ignored.NOT_REPORTED if pod.key in unreported else None


def _why_not_seen(pod: ResidentPod, topology: NodeTopology) -> Ignored | None:
    """Why no agent can have seen that; None if one can."""
    if not pod.observed:
        return Ignored.UNREADABLE
    if not pod.started:
        return Ignored.NOT_STARTED
    if credible(replace(pod, allocation=pod.observed), topology).allocation is None:
        return Ignored.IMPOSSIBLE
    shares = given_to(pod, topology)
    if shares is None:  # its running containers may have less than its init containers had
        return None
    given, seen = added(shares), added(amounts for _, amounts in pod.observed)
    listed = {name for zone in topology.zones for name in zone.resources}
    named = all(name in seen for name in given if name == CPU or is_device(name))
    equal = all(given.get(name) == amount for name, amount in seen.items() if name in listed)
    return None if named and equal else Ignored.OTHER_AMOUNTS
