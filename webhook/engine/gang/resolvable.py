"""Placement of a gang as if no other pod ran: separates gangs that can never fit from those that wait for capacity.

1. Every node counts as empty, ready, not cordoned and not avoided; reservations are ignored.
2. Running members of the gang keep their nodes and resources.
3. The gang is placed there.
"""

from collections.abc import Iterable
from dataclasses import replace

from webhook.engine.gang.admission_replay import settled
from webhook.engine.gang.backfill_reservation import nodes_of
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.result import GangAssignment
from webhook.engine.request import named_resources
from webhook.engine.snapshot.empty_cluster import empty_cluster
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.model.options import GangStrategy


def assign_when_empty(
    snapshot: Snapshot,
    tree: TopologyTree,
    gang: Gang,
    within: Domain | None = None,
    strategy: GangStrategy = GangStrategy.BIN_PACK,
) -> GangAssignment:
    """The assignment of a gang without the pods of others. within: the domain in which it has begun."""
    empty = empty_but_for(snapshot, [gang])
    if within is not None:
        empty = empty.closed(~nodes_of(tree, within))
    return assign_gang(empty, tree, _avoiding_none(gang), strategy)


def _avoiding_none(gang: Gang) -> Gang:
    """Nodes are avoided for a while only."""
    if not any(podset.pod.avoided or podset.pod.learned for podset in gang.all_sets()):
        return gang
    return replace(
        gang,
        sets=tuple(replace(podset, pod=replace(podset.pod, avoided=(), learned=())) for podset in gang.sets),
        subgroups=tuple(map(_avoiding_none, gang.subgroups)),
        elsewhere=tuple(replace(part, gang=_avoiding_none(part.gang)) for part in gang.elsewhere),
    )


def empty_but_for(snapshot: Snapshot, gangs: Iterable[Gang]) -> Snapshot:
    """The snapshot with the running members of these gangs and no other pod."""
    sets = [podset for gang in gangs for podset in gang.all_sets()]
    snapshot = snapshot.covering(name for podset in sets for name in named_resources(podset.pod))
    empty = Snapshot(empty_cluster(snapshot.node_arrays))
    running: dict[int, list[PodClass]] = {}
    for podset in sets:
        if podset.running:
            pod_class = PodClass.of(empty, podset.pod, podset.intent)
            for _, name in podset.running:
                if name in empty.node_arrays.index:
                    running.setdefault(empty.node_arrays.index[name], []).append(pod_class)
    return settled(empty, running)
