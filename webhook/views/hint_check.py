"""A pod's hint beside what its node's NodeResourceTopology (NRT) shows.

1. If the NRT names the pods that it reports, and leaves them only one possible placement, it is compared with the hint.
2. Else, the amounts are compared on each NUMA node of the hint. If less is taken there than the pod holds, it is
   elsewhere. If at least as much is taken, the NRT does not contradict the hint, and does not prove it.
3. What the NRT does not report yet is left out. If that is all, the answer is open.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.koordinator.hint import NUMANodeAmounts
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.state.assumed.known_placements import Certainty, Known
from webhook.state.assumed.placement_search import taken_on
from webhook.state.cluster_cache import ClusterCache


class HintVerdict(StrEnum):
    """What the NRT says about a hint."""

    AGREES = "Agrees"
    """The NRT reports the pod on the NUMA nodes of its hint."""
    DISAGREES = "Disagrees"
    """The pod is on other NUMA nodes."""
    POSSIBLE = "Possible"
    """At least as much is taken there, but the NRT does not show by which pods."""
    NOT_REPORTED = "NotReported"
    """The NRT does not report the pod yet."""
    NOT_PUBLISHED = "NotPublished"
    """The node has no NRT, or one with totals alone."""
    NO_HINT = "None"
    """The pod has no hint."""


@dataclass(frozen=True, slots=True)
class HintAmount:
    """One resource of one NUMA node of the hint, in engine units."""

    id: int
    resource: str
    hint: int
    taken: int | None
    """What the NRT shows as taken there, by all pods; None if it does not list the resource."""


@dataclass(frozen=True, slots=True)
class HintCheck:
    """The comparison."""

    verdict: HintVerdict
    reported: tuple[int, ...] | None
    """The NUMA nodes on which the NRT reports the pod; None if it leaves several possible."""
    amounts: tuple[HintAmount, ...]


def hint_check(cache: ClusterCache, key: str) -> HintCheck | None:
    """The comparison for the pod namespace/name; None if it is not bound."""
    ledger, record = cache.snapshot().nodes.ledger, cache.state.pods.get(key)
    if record is None:
        return None
    reservation = None if ledger is None else ledger.get(key)
    unreported: NumaAmounts = {} if reservation is None else reservation.numa
    topology = cache.state.topologies.get(record.node)
    return compare(record.hint, topology, cache.known_numa_nodes(key), unreported)


def compare(
    hint: NUMANodeAmounts | None, topology: NodeTopology | None, known: Known | None, unreported: NumaAmounts
) -> HintCheck:
    """The comparison. known: what the service knows of the pod; unreported: what of it the NRT does not show yet."""
    if not hint:
        return HintCheck(HintVerdict.NO_HINT, None, ())
    taken = {} if topology is None else taken_on(topology)
    amounts = tuple(
        HintAmount(numa_id, resource, amount, taken.get(numa_id, {}).get(resource))
        for numa_id, held in sorted(hint, key=lambda one: one[0])
        for resource, amount in sorted(held.items())
    )
    if topology is None or topology.publisher is Publisher.TOTAL:
        return HintCheck(HintVerdict.NOT_PUBLISHED, None, amounts)
    if known is not None and known.certainty is Certainty.CONFIRMED:
        same = _amounts(known.numa) == _amounts(dict(hint))
        verdict = HintVerdict.AGREES if same else HintVerdict.DISAGREES
        return HintCheck(verdict, tuple(sorted(known.numa)), amounts)
    missing = {resource for held in unreported.values() for resource in held}
    shown = [each for each in amounts if each.resource not in missing and each.taken is not None]
    if not shown:
        return HintCheck(HintVerdict.NOT_REPORTED, None, amounts)
    elsewhere = any((each.taken or 0) < each.hint for each in shown)
    return HintCheck(HintVerdict.DISAGREES if elsewhere else HintVerdict.POSSIBLE, None, amounts)


def _amounts(numa: NumaAmounts) -> Mapping[int, Mapping[str, int]]:
    return {numa_id: dict(amounts) for numa_id, amounts in numa.items() if amounts}
