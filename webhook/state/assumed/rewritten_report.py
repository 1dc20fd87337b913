"""Whether an NRT that was written again without a change leaves the reservations of its node as they are.

Exporters write every minute, and mostly only the time differs. What is derived for a node depends on that time in two
ways (see `unreported`): pods that were bound shortly before or after it, and pods that have ended since. Everything
else is derived again only if something is left to find out: assumed pods, unhinted pods, pods whose NUMA nodes no NRT
has confirmed, and changes that are due to time alone.
"""

from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology
from webhook.state.assumed.known_placements import Certainty
from webhook.state.assumed.node_facts import NodeFacts
from webhook.state.assumed.unreported import is_long_after


def changes_nothing(facts: NodeFacts, known: NodeTopology, rewritten: NodeTopology) -> bool:
    """Whether deriving the node's reservations again would give the same, except for changes due to time.

    known: the NRT that they were derived from. rewritten: the same, written at another time.
    """
    if any(True for _ in facts.assumed.on(known.node)):
        return False
    ended = facts.reports.ended(known)
    if ended != facts.reports.ended(rewritten):
        return False
    covered = facts.reports.reported(known)
    if covered is not None and any(pod.key in covered for pod in ended):
        return False
    return all(_is_settled(facts, pod, known, rewritten) for pod in facts.pods.on(known.node))


def _is_settled(facts: NodeFacts, pod: ResidentPod, known: NodeTopology, rewritten: NodeTopology) -> bool:
    if not pod.node or pod.unhinted:
        return False
    if not pod.exclusive_resources:
        return True
    if known.fingerprint is not None and facts.hints.certainty(pod.key) is not Certainty.CONFIRMED:
        return False
    return all(is_long_after(one, pod, facts.times.settle) for one in (known, rewritten))
