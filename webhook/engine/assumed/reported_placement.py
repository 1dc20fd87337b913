"""The placements of the pods that a NodeResourceTopology reports, from its numbers and from what was known before.

1. A pod whose placement is known has that one. An uncertain pod has one of its alternatives, a pod without a hint any
   placement that its kubelet could give it. If only one remains possible (see `placement_search`), the pod has it.
2. If no combination is possible, some pod is not where it was replayed. Then each pod that no NRT has confirmed may be
   anywhere. A pod with one remaining placement has it; the others are uncertain.
3. What ended pods held is certainly free only if this follows without any hint that the NRT does not confirm.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from webhook.engine.assumed.alternatives import Alternatives
from webhook.engine.assumed.known_placements import Certainty, KnownHints
from webhook.engine.assumed.placement_search import Candidate, Located, locate
from webhook.engine.assumed.possible_placements import given_to, most_given_to, placements_of
from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod


@dataclass(frozen=True, slots=True)
class ReportedPlacements:
    """What one NRT proves about the pods that it reports, by pod key."""

    placements: Mapping[str, NumaAmounts | None] = field(default_factory=dict)
    """The placements of the pods that the NRT says something about; None: several are possible."""
    certain: Mapping[str, NumaAmounts] = field(default_factory=dict)
    """The placements that follow from the NRT without an unconfirmed hint."""


def reported_placements(
    topology: NodeTopology, pods: Sequence[ResidentPod], hints: KnownHints, alternatives: Alternatives
) -> ReportedPlacements:
    """Compare the NRT with the known placements.

    pods: all that the NRT reports and that hold exclusive resources, also those that have ended.
    """
    confirmed = {pod.key for pod in pods if hints.certainty(pod.key) is Certainty.CONFIRMED}
    unknown = [pod for pod in pods if not pod.hint or hints.certainty(pod.key) is Certainty.UNCERTAIN]
    uncertain = {pod.key for pod in unknown}
    found = locate(topology, [_candidate(pod, topology, alternatives, fixed=pod.key not in uncertain) for pod in pods])
    if found is None:
        return ReportedPlacements()
    if _agrees(found):
        placements = _single(found)
        if not uncertain:
            return ReportedPlacements(placements, {key: numa for key, numa in placements.items() if numa is not None})
        alone = _of_the_nrt_alone(topology, pods, confirmed)
        return ReportedPlacements(placements, {} if alone is None else _known(alone))
    alone = _of_the_nrt_alone(topology, pods, confirmed)
    if alone is None or not _agrees(alone):
        return ReportedPlacements({pod.key: None for pod in pods if pod.key not in confirmed})
    return ReportedPlacements(_single(alone), _known(alone))


def _of_the_nrt_alone(topology: NodeTopology, pods: Iterable[ResidentPod], confirmed: Iterable[str]) -> Located | None:
    """The placements that remain possible if only hints that an NRT has confirmed are trusted."""
    fixed = set(confirmed)
    return locate(topology, [_candidate(pod, topology, None, fixed=pod.key in fixed) for pod in pods])


def _candidate(
    pod: ResidentPod, topology: NodeTopology, alternatives: Alternatives | None, *, fixed: bool
) -> Candidate:
    hint = dict(pod.hint or ())
    # A pod on several NUMA nodes could have any shares: there would soon be too many combinations.
    if fixed or (len(hint) > 1 and alternatives is None):
        return Candidate(pod.key, added(hint.values()), [hint])
    shares = given_to(pod, topology)
    if shares is None:
        # Later containers reuse what init containers held: only the hint has the resulting amounts.
        amounts = added(hint.values()) if hint else most_given_to(pod, topology)
        return Candidate(pod.key, amounts, placements_of([amounts], topology) if len(hint) == 1 else None)
    placements = placements_of(shares, topology)
    if placements is not None and hint and alternatives is not None and pod.key in alternatives:
        allowed = alternatives.ids(pod.key) | hint.keys()
        placements = [numa for numa in placements if numa.keys() <= allowed]
    return Candidate(pod.key, added(shares), placements)


def _agrees(found: Located) -> bool:
    return all(found.values())


def _single(found: Located) -> dict[str, NumaAmounts | None]:
    return {pod: placements[0] if len(placements) == 1 else None for pod, placements in found.items()}


def _known(found: Located) -> dict[str, NumaAmounts]:
    return {pod: placements[0] for pod, placements in found.items() if len(placements) == 1}
