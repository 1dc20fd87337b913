"""The place that is held for a preemptor once its victims are chosen."""

from collections.abc import Hashable, Mapping

from webhook.controllers.preemption.holds import Hold
from webhook.controllers.preemption.preemptor import Preemptor
from webhook.engine.preemption.victims import Victims


def chosen_hold(
    preemptor: Preemptor, victims: Victims, uids: Mapping[str, str], earlier: Mapping[str, str] | None = None
) -> Hold:
    """The hold. uids: those of the victims, by namespace/name. earlier: the same of those that end already for it."""
    members = {one.key: one.pod.uid for one in preemptor.members}
    by_name = {one.pod.name: one.key for one in preemptor.members}
    places = {by_name[name]: node for name, node in victims.places if name in by_name}
    if not victims.places:
        places = dict.fromkeys(members, victims.nodes[0])
    nodes = frozenset(victims.nodes)
    name, priority, asks = preemptor.name, preemptor.priority, asks_of(preemptor)
    return Hold(name, priority, nodes, members, uids, places, earlier=earlier or {}, asks=asks)


def asks_of(preemptor: Preemptor) -> Hashable:
    """What its members ask for: a place is chosen for exactly this."""
    return frozenset((one.key, one.request_signature) for one in preemptor.members)
