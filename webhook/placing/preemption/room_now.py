"""A place on a held node for a single pod that certainly leaves the preemptor its room.

A held node is closed as a whole, because its kubelet chooses NUMA nodes by itself: a pod that fits beside the preemptor
by its amounts may get just the NUMA node that is being freed. A pod is placed there all the same if all of this holds:

1. It is one container in one NUMA node, and the node's NodeResourceTopology shows all that runs there. So its kubelet
   has no other choice than NUMA nodes with that much free, and no other pod's place is open.
2. The node's sums have room for it and for the preemptor's pods before any victim has ended: kube-scheduler counts the
   nominated pods and the victims, and would not bind it otherwise.
3. Once the victims are gone, the node admits the preemptor's pods and those that wait for room beside them, whichever
   NUMA node this pod has got by then. It also admits this pod after all of them.

A gang is not placed on held nodes.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from webhook.engine.arrays import NO_ZONE
from webhook.engine.gang.admission_replay import replay
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.snapshot.node_sums import added
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.model.resources import PODS
from webhook.placing.node_holdings import Holdings
from webhook.placing.pod.assignment import Assignment, find_assignment
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.beside import Queue, freed_view, queues_before
from webhook.placing.preemption.unshown_room import FreedHoldings
from webhook.placing.preemption.waiting_preemptors import WaitingPreemptors
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

# Each costs a decision and some replays. At most 64 nodes are held.
_MOST_TRIED: Final = 8


def place_beside(
    preemptor: WaitingUnit, cache: ClusterCache, preemptors: WaitingPreemptors, rules: Rules
) -> Assignment | None:
    """The place; None if there is none. preemptor: a single pod for which the held nodes are closed."""
    gated = preemptor.unit
    if not isinstance(gated, GatedPod) or gated.delegated_why is not None or len(gated.pod.containers) != 1:
        return None
    snapshot = cache.snapshot().nodes
    queues = _queues(preemptor, cache, preemptors)
    left = {node for node, some in queues.items() if _is_shown(snapshot, node) and _sums_fit(snapshot, some, gated)}
    for _ in range(_MOST_TRIED):
        if not left:
            break
        found = find_assignment(_only(snapshot, left), gated, rules, cache.assigned)
        if not isinstance(found, Assignment) or found.nodes is not None or len(found.allocation.numa_nodes) != 1:
            return None
        if _is_certain(found.allocation, gated, queues[found.allocation.node], cache, snapshot):
            return found
        left.discard(found.allocation.node)
    return None


def _queues(preemptor: WaitingUnit, cache: ClusterCache, preemptors: WaitingPreemptors) -> dict[str, list[Queue]]:
    """What gets room on each held node first, for the nodes where that is known."""
    queues: dict[str, list[Queue]] = defaultdict(list)
    for queue in queues_before(preemptor, cache, preemptors):
        queues[queue.node].append(queue)
    against = [hold for hold in preemptors.holds if hold.name != preemptor.name and hold.priority >= preemptor.priority]
    return {node: some for node, some in queues.items() if len(some) == sum(node in hold.nodes for hold in against)}


def _is_shown(snapshot: Snapshot, node: str) -> bool:
    """Whether nothing is reserved on the NUMA nodes: all that runs there is in its NodeResourceTopology."""
    if node not in snapshot.node_arrays.index:
        return False
    return snapshot.ledger is None or not any(snapshot.ledger.sums(node).numa.values())


def _sums_fit(snapshot: Snapshot, queues: Iterable[Queue], gated: GatedPod) -> bool:
    """Condition 2."""
    queues = tuple(queues)
    ahead = [{**one.pod.requests, PODS: 1} for queue in queues for one in queue.ahead]
    wanted = added([*ahead, {**gated.pod.requests, PODS: 1}])
    snapshot = snapshot.covering(wanted)
    arrays = snapshot.node_arrays
    n = arrays.index[queues[0].node]
    return all(
        name in arrays.resources and int(snapshot.node_free(arrays.resources.find(name))[n]) >= amount
        for name, amount in wanted.items()
        if amount
    )


def _only(snapshot: Snapshot, names: Iterable[str]) -> Snapshot:
    """The snapshot with room on these nodes alone."""
    arrays = snapshot.node_arrays
    closed = np.ones(arrays.n, dtype=np.bool_)
    closed[[arrays.index[name] for name in names]] = False
    return snapshot.closed(closed)


def _is_certain(
    allocation: NUMAAllocation, gated: GatedPod, queues: Sequence[Queue], cache: ClusterCache, snapshot: Snapshot
) -> bool:
    """Condition 3."""
    view = freed_view(cache, snapshot, queues, gated, FreedHoldings(Holdings(cache).on, {}))
    arrays = view.node_arrays
    n = arrays.index[allocation.node]
    ahead = [PodClass.of(view, one.pod, one.intent) for queue in queues for one in queue.ahead]
    own = PodClass.of(view, gated.pod, gated.intent)
    if not all(_admits(view, n, order) for order in ([own, *ahead], [*ahead, own])):
        return False
    ((_, amounts),) = allocation.numa_nodes
    rows = {arrays.resources.find(name): amount for name, amount in amounts.items()}
    for position, numa_id in enumerate(arrays.zone_ids[:, n].tolist()):
        if numa_id == NO_ZONE or any(int(view.free(row)[position, n]) < amount for row, amount in rows.items()):
            continue
        taken = view
        for row, amount in rows.items():
            free = view.free(row).copy()
            free[position, n] -= amount
            taken = taken.with_plane(row, free)
        if not _admits(taken, n, ahead):
            return False
    return True


def _admits(view: Snapshot, n: int, sequence: Sequence[PodClass]) -> bool:
    return len(replay(view, {n: sequence})[n]) == len(sequence)
