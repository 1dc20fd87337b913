"""The place that is held for a preemptor once its victims are chosen."""

from collections.abc import Hashable, Mapping, Sequence

from webhook.cache.cluster_cache import ClusterCache
from webhook.controllers.preemption.holds import Hold
from webhook.controllers.preemption.preemptor import Preemptor
from webhook.engine.freeing.holdings import HeldPod
from webhook.engine.preemption.victims import Victims
from webhook.views.freeing import Holdings


def chosen_hold(
    preemptor: Preemptor, victims: Victims, uids: Mapping[str, str], partial: Hold | None, cache: ClusterCache
) -> Hold:
    """The hold. uids: those of the victims, by namespace/name. partial: the hold that this choice completes."""
    members = {one.key: one.pod.uid for one in preemptor.members}
    by_name = {one.pod.name: one.key for one in preemptor.members}
    places = {by_name[name]: node for name, node in victims.places if name in by_name}
    if not victims.places:
        places = dict.fromkeys(members, victims.nodes[0])
    earlier = {} if partial is None else {**partial.earlier, **partial.victims}
    held = _held(victims, {} if partial is None else partial.held, cache)
    nodes = frozenset(victims.nodes)
    name, priority, asks = preemptor.name, preemptor.priority, asks_of(preemptor)
    return Hold(name, priority, nodes, members, uids, places, earlier=earlier, held=held, asks=asks)


def asks_of(preemptor: Preemptor) -> Hashable:
    """What its members ask for: a place is chosen for exactly this."""
    return frozenset((one.key, one.request_signature) for one in preemptor.members)


def _held(victims: Victims, before: Mapping[str, Sequence[HeldPod]], cache: ClusterCache) -> dict[str, list[HeldPod]]:
    """Node -> what the victims hold there. before: the same of those that end already."""
    holdings, keys = Holdings(cache), frozenset(victims.pods)
    return {
        node: [*before.get(node, ()), *(pod for pod in holdings.on(node).pods if pod.key in keys)]
        for node in victims.nodes
    }
