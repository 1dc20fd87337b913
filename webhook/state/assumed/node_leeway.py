"""How much more or less of a node may be free for a pod than the NRT and the ledger say (see `free_bounds`)."""

from collections.abc import Iterator

from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.state.assumed.free_bounds import Leeway
from webhook.state.assumed.known_placements import Certainty
from webhook.state.assumed.node_facts import NodeFacts
from webhook.state.assumed.node_reservations import NodeReservations
from webhook.state.assumed.placement_search import most_given_to
from webhook.state.assumed.unreported import Unreported, not_reported


def node_leeway(
    facts: NodeFacts, reservations: NodeReservations, rest: Unreported, node: str, pod: str, now: float
) -> Leeway:
    """The leeway of the node for the pod (namespace/name). rest: what the node's NRT does not report."""
    topology = facts.reports.topology(node)
    if topology is None or topology.publisher is Publisher.TOTAL:
        return Leeway()
    uncertain = {other.key for other, seen in facts.unhinted.on(node) if seen.why_unknown is not None}
    kept: list[NumaAmounts] = []
    maybe_taken = list(_without_reservation(facts, topology, pod, now))
    for reservation in reservations.on(node):
        key = reservation.pod
        if key == pod or facts.is_assigned(key) or facts.is_tentative(key):
            continue
        if key in uncertain or facts.hints.certainty(key) is Certainty.UNCERTAIN:
            kept.append(reservation.numa)
            maybe_taken.append(facts.hints.anywhere(key, reservation.numa, topology))
        elif key in rest.maybe_counted:
            kept.append(rest.maybe_counted[key])
    return Leeway(kept, [rest.maybe_free] if rest.maybe_free else (), [numa for numa in maybe_taken if numa])


def _without_reservation(facts: NodeFacts, topology: NodeTopology, but: str, now: float) -> Iterator[NumaAmounts]:
    """What unreported pods without a reservation may hold, on every NUMA node. but: the pod to leave out."""
    bound = facts.pods.bound_to(topology.node)
    holding = [pod for pod in bound if pod.exclusive_resources and pod.key != but and not pod.unhinted]
    unknown = [pod for pod in holding if not facts.hints.is_located(pod)]
    if unknown:
        reported = facts.reports.reported(topology)
        ended = facts.reports.ended(topology)
        for pod in not_reported(topology, unknown, reported, facts.times, now, ended)[0]:
            amounts = most_given_to(pod, topology)
            yield {zone.id: amounts for zone in topology.zones}
