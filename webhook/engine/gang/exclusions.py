"""The limits by which members of a gang exclude each other (`kubernetes.exclusions`), as resources of the nodes.

1. Each limit becomes a resource that no other pod requests. What a member takes of it is added to its pod.
2. A limit of nodes: each offers its room, less what running members take.
3. A limit of domains: the room of each goes to those of its nodes that hold most of the pods. Sums over domains at
   least as coarse are exact. In a gang that must be within one domain of a finer level, it is the room of that one.
4. Pods that spread may exceed `maxSkew` once every domain that they may go to has a member: by as many as each has.

So counting, searching and explaining a gang treat these limits as they treat GPUs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.filter.node_fit import closed
from webhook.engine.gang.gang_spec import Gang, PodSet
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import count
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.formats.kubernetes.exclusions import Limit, limits_of


def with_exclusions(snapshot: Snapshot, tree: TopologyTree, gang: Gang) -> tuple[Snapshot, Gang]:
    """The snapshot and the gang with these resources; both unchanged if its members do not exclude each other."""
    sets = gang.own_sets()
    if all(podset.pod.exclusions is None for podset in sets):
        return snapshot, gang
    limits, _ = limits_of([(podset.pod.labels, podset.pod.exclusions) for podset in sets], tree.topology.node_labels)
    if not limits:
        return snapshot, gang
    running = _running(snapshot, sets)
    room: dict[str, Amounts] = {}
    for limit in limits:
        name = limit.name if limit.name not in room else f"{limit.name} ({len(room)})"
        room[name] = _room(snapshot, tree, gang, limit, running)
    names = list(room)
    asked = {
        id(podset): {name: limit.needs[index] for name, limit in zip(names, limits, strict=True) if limit.needs[index]}
        for index, podset in enumerate(sets)
    }
    return snapshot.offering(room), _asking(gang, asked)


def _asking(gang: Gang, asked: Mapping[int, Mapping[str, int]]) -> Gang:
    """The gang whose pods request these amounts. asked: by the id of their pod set."""
    return replace(
        gang,
        sets=tuple(
            replace(podset, pod=replace(podset.pod, requests={**podset.pod.requests, **asked[id(podset)]}))
            for podset in gang.sets
        ),
        subgroups=tuple(_asking(subgroup, asked) for subgroup in gang.subgroups),
    )


def _running(snapshot: Snapshot, sets: Sequence[PodSet]) -> Amounts:
    """int64 [node]: members that already run there."""
    index = snapshot.node_arrays.index
    nodes = [index[name] for podset in sets for _, name in podset.running if name in index]
    return np.bincount(np.array(nodes, dtype=np.intp), minlength=snapshot.node_arrays.n)


def _room(snapshot: Snapshot, tree: TopologyTree, gang: Gang, limit: Limit, running: Amounts) -> Amounts:
    """int64 [node]: what each offers of the limit."""
    sets = gang.own_sets()
    level = tree.node_level if limit.level is None else limit.level + 1
    most = limit.room
    if limit.spreads:
        pods = sum(len(podset.members) + len(podset.running) for podset in sets)
        most += pods // max(_domains_that_may_hold(snapshot, tree, sets[limit.needs.index(1)], level), 1)
    if limit.level is None:
        # Which of the pods run there is not known where some take nothing, or all: none may join them.
        taken = running if set(limit.needs) == {1} else np.where(running > 0, most, 0)
        return np.maximum(most - taken, 0)
    level = max(level, gang.constraint.bound)
    (podset,) = sets
    covering = snapshot.covering(podset.pod.requests)
    held = count(covering, PodClass.of(covering, podset.pod, podset.intent)).nodes.take(tree.order)
    left = np.maximum(most - tree.sums(level, running.take(tree.order)), 0)
    # Nodes without the label are in no domain: anti-affinity does not reach them, and spreading pods avoid them.
    outside = held * (not limit.spreads)
    granted = np.where(tree.real(level)[tree.domains(level)], _largest_first(tree, level, held, left), outside)
    room = np.zeros_like(granted)
    room[tree.order] = granted
    return room


def _domains_that_may_hold(snapshot: Snapshot, tree: TopologyTree, podset: PodSet, level: int) -> int:
    """How many domains of a level have a node that the pods' own selectors and tolerations allow."""
    shut = closed(snapshot.node_arrays, podset.pod)
    allowed: Bools = np.ones(tree.n, dtype=np.bool_) if shut is None else ~shut
    return int(np.count_nonzero(tree.sums(level, allowed.take(tree.order).astype(np.int64)) * tree.real(level)))


def _largest_first(tree: TopologyTree, level: int, held: Amounts, left: Amounts) -> Amounts:
    """int64 [position]: at most `left` pods in each domain of a level, on the nodes that hold most of them."""
    owners = tree.domains(level)
    order = np.lexsort((-held, owners))
    in_order = held[order]
    running = in_order.cumsum() - in_order
    starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
    before = running - np.repeat(running[starts], np.diff(starts, append=len(order)))
    granted = np.zeros_like(held)
    granted[order] = np.clip(left[owners[order]] - before, 0, in_order)
    return granted
