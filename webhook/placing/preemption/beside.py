"""Room beside a preemptor for which pods end already: a single pod that fits there needs no victims of its own.

1. The nodes of a hold are judged as they will be: without its victims and what else is being deleted there. Victims
   that have ended count too, as long as the exporters have not shown that (see `unshown_room`).
2. On them the node admits the preemptor's pods, then those that wait for room beside it already, then this one. If it
   admits all, this one waits until the same pods have terminated.
3. Nothing is reserved for it. When the hold ends, the pod is placed like any other, or has a turn of its own.

A gang has victims of its own: its domain is chosen as a whole.

Of random preemptors of a fourth to three fourths of a NUMA node, which come together, one in ten to twenty evictions
is spared; of two that share what one victim leaves, one of two.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from webhook.engine.freeing import fits_without_pods
from webhook.engine.gang.admission_replay import replay
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.preemption.freed_cluster import FreedCluster
from webhook.engine.request import named_resources
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.holds import Hold, RoomBeside
from webhook.placing.preemption.preemption_candidates import is_leaving
from webhook.placing.preemption.unshown_room import FreedHoldings
from webhook.placing.preemption.waiting_preemptors import WaitingPreemptors
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules


def has_room_beside(preemptor: WaitingUnit, cache: ClusterCache, preemptors: WaitingPreemptors, rules: Rules) -> bool:
    """Whether a single pod has room beside a preemptor; notes that in the hold."""
    pod = preemptor.unit
    if not isinstance(pod, GatedPod):
        return False
    if preemptors.holds.beside(pod.key) is not None:
        return True
    queues = list(_queues_before(preemptor, cache, preemptors))
    if not queues:
        return False
    snapshot = cache.snapshot().nodes
    index = snapshot.node_arrays.index
    able = fits_without_pods(snapshot, pod.pod, pod.intent, rules.engine)
    queues = [queue for queue in queues if queue.node in index and able[index[queue.node]]]
    if not queues:
        return False
    view = _freed_view(cache, snapshot, queues, pod, preemptors.unshown.holdings())
    classes = {pod.request_signature: PodClass.of(view, pod.pod, pod.intent)}
    for hold, node, ahead in queues:
        for one in ahead:
            if one.request_signature not in classes:
                classes[one.request_signature] = PodClass.of(view, one.pod, one.intent)
        sequence = [classes[one.request_signature] for one in (*ahead, pod)]
        if len(replay(view, {index[node]: sequence})[index[node]]) == len(sequence):
            hold.beside[pod.key] = RoomBeside(preemptor.name, node)
            return True
    return False


class _Queue(NamedTuple):
    """The pods that get room on a held node before others."""

    hold: Hold
    node: str
    ahead: list[GatedPod]


def _queues_before(preemptor: WaitingUnit, cache: ClusterCache, preemptors: WaitingPreemptors) -> Iterator[_Queue]:
    """The nodes that are held against the preemptor, and the pods that will get room there first."""
    unusable = preemptor.reserved | preemptors.in_vain.closed
    for hold in preemptors.holds:
        if hold.name == preemptor.name or hold.priority < preemptor.priority:
            continue
        if not _is_known(hold, cache, preemptors):
            continue  # what it needs is not known before it is tried again
        by_node: dict[str, list[GatedPod]] = defaultdict(list)
        for member in _left(hold.name, cache, preemptors):
            by_node[hold.places.get(member.key, "")].append(member)
        if "" in by_node:
            continue  # where this one will run is not known
        for room in hold.beside.values():
            by_node[room.node].extend(_left(room.name, cache, preemptors))
        for node in sorted(hold.nodes - unusable):
            yield _Queue(hold, node, by_node[node])


def _is_known(hold: Hold, cache: ClusterCache, preemptors: WaitingPreemptors) -> bool:
    """Whether what the hold's members need is known: each has its place, or was found not to fit."""
    current, gated = preemptors.current(hold.name), cache.ours.gated()
    waiting = set() if current is None else {one.key for one in current.members}
    return all(
        key in waiting
        or cache.assumed_node(key) is not None
        or (raw := gated.get(key)) is None
        or raw["metadata"].get("uid", "") != uid
        for key, uid in hold.members.items()
    )


def _left(name: str, cache: ClusterCache, preemptors: WaitingPreemptors) -> list[GatedPod]:
    """The members of a preemptor that have no node yet: the snapshot counts the others."""
    current = preemptors.current(name)
    return [] if current is None else [one for one in current.members if cache.assumed_node(one.key) is None]


def _freed_view(
    cache: ClusterCache, snapshot: Snapshot, queues: Sequence[_Queue], pod: GatedPod, holdings: FreedHoldings
) -> Snapshot:
    """The cluster when the victims of these holds, and what else is being deleted on their nodes, are gone.

    holdings: with what ended victims have left, if that counts as free before the exporters have shown it.
    """
    nodes = {node for _, node, _ in queues}
    victims = {key: uid for hold, _, _ in queues for key, uid in {**hold.earlier, **hold.victims}.items()}
    now = cache.current_time()
    gone: dict[str, list[str]] = defaultdict(list)
    for bound in cache.bound_pods.by_key().values():
        if bound.node in nodes and (victims.get(bound.key) == bound.uid or (bound.deleting and is_leaving(bound, now))):
            gone[bound.node].append(bound.key)
    for node in nodes & holdings.unshown.keys():
        gone[node].append(holdings.unshown[node])
    asking = [pod, *(one for _, _, ahead in queues for one in ahead)]
    names = {name for one in asking for name in named_resources(one.pod)}
    return FreedCluster(snapshot, tuple(names), holdings.on).without(gone)
