"""What a NodeResourceTopology says about where the pods are that it has counted, beside what was known of them.

1. Those whose places are known have those; one in doubt has a place where it may be, one without a hint any place that
   its kubelet could give it. What remains possible (`located`) is so, if only one place remains.
2. No combination remains: some pod is not where it was thought to be. All that the NRT did not confirm before may be
   anywhere. A pod for which one place remains is there; of the others nothing is known any more.
3. What ended pods held is free for certain only if it does not rest on a hint that the NRT does not confirm.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from webhook.engine.assumed.alternatives import Alternatives
from webhook.engine.assumed.known_placements import Certainty, KnownHints
from webhook.engine.assumed.placement_search import Candidate, Located, locate
from webhook.engine.assumed.possible_placements import given_to, most_given_to, places_of
from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Of all pods that one NRT has counted, by key."""

    places: Mapping[str, NumaAmounts | None] = field(default_factory=dict)
    """Where those are that the NRT says something about; None: in one of several places."""
    certain: Mapping[str, NumaAmounts] = field(default_factory=dict)
    """Where those are for which that rests on the NRT alone."""


def whereabouts(
    topology: NodeTopology, pods: Sequence[ResidentPod], hints: KnownHints, elsewhere: Alternatives
) -> Whereabouts:
    """Of all pods that the NRT has counted and the kubelet's managers give something, those that have ended too."""
    confirmed = {pod.key for pod in pods if hints.certainty(pod.key) is Certainty.CONFIRMED}
    unknown = [pod for pod in pods if not pod.hint or hints.certainty(pod.key) is Certainty.DOUBTFUL]
    doubtful = {pod.key for pod in unknown}
    found = locate(topology, [_candidate(pod, topology, elsewhere, fixed=pod.key not in doubtful) for pod in pods])
    if found is None:
        return Whereabouts()
    if _agrees(found):
        places = _single(found)
        if not doubtful:
            return Whereabouts(places, {key: numa for key, numa in places.items() if numa is not None})
        alone = _of_the_nrt_alone(topology, pods, confirmed)
        return Whereabouts(places, {} if alone is None else _known(alone))
    alone = _of_the_nrt_alone(topology, pods, confirmed)
    if alone is None or not _agrees(alone):
        return Whereabouts({pod.key: None for pod in pods if pod.key not in confirmed})
    return Whereabouts(_single(alone), _known(alone))


def _of_the_nrt_alone(topology: NodeTopology, pods: Iterable[ResidentPod], confirmed: Iterable[str]) -> Located | None:
    """What remains possible if no hint is believed that no NRT has confirmed."""
    fixed = set(confirmed)
    return locate(topology, [_candidate(pod, topology, None, fixed=pod.key in fixed) for pod in pods])


def _candidate(pod: ResidentPod, topology: NodeTopology, elsewhere: Alternatives | None, *, fixed: bool) -> Candidate:
    hint = dict(pod.hint or ())
    # One over several NUMA nodes could have any shares: there would soon be too many of them.
    if fixed or (len(hint) > 1 and elsewhere is None):
        return Candidate(pod.key, added(hint.values()), [hint])
    shares = given_to(pod, topology)
    if shares is None:
        # Init containers leave theirs to be reused: the hint has what that comes to.
        amounts = added(hint.values()) if hint else most_given_to(pod, topology)
        return Candidate(pod.key, amounts, places_of([amounts], topology) if len(hint) == 1 else None)
    places = places_of(shares, topology)
    if places is not None and hint and elsewhere is not None and pod.key in elsewhere:
        allowed = elsewhere.ids(pod.key) | hint.keys()
        places = [numa for numa in places if numa.keys() <= allowed]
    return Candidate(pod.key, added(shares), places)


def _agrees(found: Located) -> bool:
    return all(found.values())


def _single(found: Located) -> dict[str, NumaAmounts | None]:
    return {pod: places[0] if len(places) == 1 else None for pod, places in found.items()}


def _known(found: Located) -> dict[str, NumaAmounts]:
    return {pod: places[0] for pod, places in found.items() if len(places) == 1}
