"""What is held for a pod or gang by the nominated nodes of its waiting members: by the last leader, or by `defrag`.

- Pods of lower priority are being deleted on these nodes: they are the victims. The nodes are held, and no other pod
  has to end.
- None are, and the nodes have room by their sums: the victims are gone, and the exporters may not have shown that yet.
  The nodes are held for that time.
- Some are, and when they are gone there is no room: the last leader had not evicted all. There is a new choice.
- None are, and there is no room: the last leader ended before it evicted a pod. There is a new choice.
- `topology-webhook defrag --apply` nominates, then evicts pods of the same or a lower priority. The nodes are held from
  the moment that these are being deleted.

Only the service, the scheduler and administrators can write the status of pods.
"""

from collections import defaultdict
from collections.abc import Mapping

from webhook.cache.cluster_cache import ClusterCache
from webhook.controllers.placement.gang_search import GatedGang
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.controllers.preemption.holds import Hold, Phase
from webhook.controllers.preemption.preemptor import members_of, name_of, priority_of
from webhook.engine.snapshot.node_sums import added
from webhook.model.resources import PODS
from webhook.views.preemption_candidates import is_leaving


def held_before(unit: GatedPod | GatedGang, cache: ClusterCache, now: float) -> Hold | None:
    """The hold of the last leader; None if there is none. now: seconds of `time.monotonic`."""
    members, places = members_of(unit), nominated_places(unit)
    if not places:
        return None
    nodes, priority = frozenset(places.values()), priority_of(unit)
    bound, wall_clock = cache.bound_pods.by_key().values(), cache.current_time()
    ending = {
        pod.key: pod.uid
        for pod in bound
        if is_leaving(pod, wall_clock) and pod.node in nodes and pod.priority < priority
    }
    if not ending and not have_room(members, places, cache):
        return None
    uids = {one.key: one.pod.uid for one in members}
    return Hold(name_of(unit), priority, nodes, uids, ending, places, Phase.ENDING, taken_over=True, since=now)


def held_by_evictions(unit: GatedPod | GatedGang, cache: ClusterCache, now: float) -> Hold | None:
    """The hold of `defrag`; None if no pod of the same or a lower priority is being deleted on the nominated nodes."""
    places = nominated_places(unit)
    if not places:
        return None
    members, nodes, priority = members_of(unit), frozenset(places.values()), priority_of(unit)
    bound, wall_clock = cache.bound_pods.by_key().values(), cache.current_time()
    ending = {
        pod.key: pod.uid
        for pod in bound
        if is_leaving(pod, wall_clock) and pod.node in nodes and pod.priority <= priority
    }
    if not ending:
        return None
    uids = {one.key: one.pod.uid for one in members}
    return Hold(name_of(unit), priority, nodes, uids, ending, places, Phase.ENDING, since=now, moves=True)


def nominated_places(unit: GatedPod | GatedGang) -> Mapping[str, str]:
    """namespace/name -> node of the members that are nominated."""
    return {one.key: node for one in members_of(unit) if (node := one.nominated)}


def have_room(members: tuple[GatedPod, ...], places: Mapping[str, str], cache: ClusterCache) -> bool:
    """Whether each node has as much free as its members request."""
    wanted: dict[str, list[Mapping[str, int]]] = defaultdict(list)
    for one in members:
        if one.key in places:
            wanted[places[one.key]].append({**one.pod.requests, PODS: 1})
    snapshot = cache.snapshot().nodes
    snapshot = snapshot.covering({name for requests in wanted.values() for each in requests for name in each})
    arrays = snapshot.node_arrays
    for node, requests in wanted.items():
        n = arrays.index.get(node)
        if n is None:
            return False
        for name, amount in added(requests).items():
            free = int(snapshot.node_free(arrays.resources.find(name))[n]) if name in arrays.resources else 0
            if amount > free:
                return False
    return True
