"""The domain that can hold a gang earliest: the one to reserve for a gang that has waited long.

1. Candidates: domains of the level that the gang requires. Without one, the only domain is the whole cluster.
2. Only those that would hold the gang if no other pod ran there: counted first, then tried. Reserving another one
   would be useless.
3. Of these, those that would hold it beside the pods that end only when they are deleted (see `lasting_pods`); if
   there are none, all: such pods, too, come and go.
4. Of these the one that holds most of the gang now; of equal ones the first in tree order.

While a domain is reserved, only pods that end change its capacity. So the maximum over all domains never falls, and
another domain is chosen only when it holds more: every pod that ends there brings the gang closer to its start.
The choice depends on the cluster alone, so all replicas make the same choice.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Final

import numpy as np

from webhook.engine.arrays import NO_ZONE, UNLISTED, Amounts, Bools
from webhook.engine.freeing import HeldPod
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.pod_counts import Caps, count
from webhook.engine.gang.remaining import Remaining
from webhook.engine.gang.slices import pods_by_class, slice_gang
from webhook.engine.request import named_resources
from webhook.engine.snapshot.empty_cluster import empty_cluster
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree

LastingOn = Callable[[str], Iterable[HeldPod]]
"""The pods of a node (by name) that end only when they are deleted."""


def none_lasts(node: str) -> Iterable[HeldPod]:
    """Every pod ends."""
    del node
    return ()


class LastingCluster:
    """The cluster as it will be once every pod that ever ends has ended: what could hold a gang one day.

    It begins as the empty cluster; lasting pods are put on nodes when these are searched.
    """

    def __init__(self, node_arrays: NodeArrays, lasting_on: LastingOn) -> None:
        empty = empty_cluster(node_arrays)
        self.empty = Snapshot(empty)
        # What is written here: the free amounts of the empty cluster are the real one's allocatable ones.
        self._arrays = replace(
            empty,
            available=empty.available.copy(),
            node_free=empty.node_free.copy(),
            single_residents=empty.single_residents.copy(),
            multi_residents=empty.multi_residents.copy(),
        )
        self._lasting_on = lasting_on

    def snapshot(self, nodes: Iterable[int]) -> Snapshot | None:
        """The cluster with the lasting pods of these nodes (indexes), none of which was named before; None without any.

        For a search among these nodes only: those of earlier calls have their lasting pods, others none.
        """
        lasting = [(node, pod) for node in nodes for pod in self._lasting_on(self._arrays.names[node])]
        for node, pod in lasting:
            self._put(node, pod)
        return Snapshot(replace(self._arrays)) if lasting else None  # what is known of arrays belongs to the object

    def _put(self, node: int, pod: HeldPod) -> None:
        arrays = self._arrays
        for row, amount in self._rows(pod.requests.items()):
            arrays.node_free[row, node] -= amount
        ids = arrays.zone_ids[:, node].tolist()
        positions = {numa_id: z for z, numa_id in enumerate(ids) if numa_id != NO_ZONE}
        for numa_id, amounts in (*pod.numa.items(), *pod.reserved.items()):
            for row, amount in self._rows(amounts.items() if numa_id in positions else ()):
                cell = row, positions[numa_id], node
                if arrays.available[cell] != UNLISTED:
                    arrays.available[cell] = max(0, arrays.available[cell] - amount)
        for residents, numa_ids in ((arrays.single_residents, pod.single), (arrays.multi_residents, pod.multi)):
            for numa_id in numa_ids:
                if numa_id in positions:
                    residents[positions[numa_id], node] += 1

    def _rows(self, amounts: Iterable[tuple[str, int]]) -> Iterator[tuple[int, int]]:
        for name, amount in amounts:
            row = self._arrays.resources.find(name)
            if row >= 0:
                yield row, amount


# Trials of domains that have enough capacity by count but still do not hold the gang: its pods conflict, or pods that
# never end run there. Each costs a search, about a millisecond.
_TRIALS: Final = 8


def earliest_domain(
    snapshot: Snapshot,
    tree: TopologyTree,
    gang: Gang,
    within: Domain | None = None,
    lasting_on: LastingOn = none_lasts,
) -> Domain | None:
    """The domain; None if there is none to reserve, or none that could ever hold the gang.

    within: the domain in which the gang has begun; no other is reserved. lasting_on: the pods that never end.
    """
    level = gang.constraint.bound
    if level == ROOT:
        return None
    snapshot = snapshot.covering(name for podset in gang.all_sets() for name in named_resources(podset.pod))
    lasting = LastingCluster(snapshot.node_arrays, lasting_on)
    empty = lasting.empty
    able = able_domains(empty, snapshot, tree, gang)
    if within is not None:
        able = [number for number in able if number == tree.ancestor(within, level).number]
    earliest: Domain | None = None
    for number in able[:_TRIALS]:
        domain = Domain(level, number)
        outside = ~nodes_of(tree, domain)
        if not assign_gang(empty.closed(outside), tree, gang).assigned:
            continue
        beside = lasting.snapshot((~outside).nonzero()[0].tolist())
        if beside is None or assign_gang(beside.closed(outside), tree, gang).assigned:
            return domain
        earliest = earliest or domain
    return earliest


def nodes_of(tree: TopologyTree, domain: Domain) -> Bools:
    """Bool [node]: the nodes of a domain."""
    inside = np.zeros(tree.n, dtype=np.bool_)
    inside[tree.order[tree.span(domain)]] = True
    return inside


def usable_nodes(snapshot: Snapshot, tree: TopologyTree, gang: Gang, domain: Domain) -> Bools:
    """Bool [node]: the nodes of a domain that could hold any pod of the gang if no other pod ran there.

    The others are of no use to it, so that no other pod needs to be kept off them.
    """
    snapshot = snapshot.covering(name for podset in gang.all_sets() for name in named_resources(podset.pod))
    empty, usable = Snapshot(empty_cluster(snapshot.node_arrays)), np.zeros(tree.n, dtype=np.bool_)
    for pod_class in {pod_slice.pod_class for pod_slice in slice_gang(empty, tree, gang).all_slices()}:
        usable |= count(empty, pod_class).nodes > 0
    return usable & nodes_of(tree, domain)


def _holds(snapshot: Snapshot, tree: TopologyTree, gang: Gang, level: int) -> Amounts:
    """int64 [domain]: the pods up to the minimum that each domain holds, each class counted by itself."""
    needs = pods_by_class(slice_gang(snapshot, tree, gang).all_slices(), attrgetter("minimum"))
    return Remaining(snapshot, tree, Caps()).holds(level, needs)


def able_domains(freed: Snapshot, now: Snapshot, tree: TopologyTree, gang: Gang) -> list[int]:
    """The domains of the gang's required level that have room for it, by count, in one view of the cluster.

    Those first that hold most of it in another view.
    """
    level = gang.constraint.bound
    needed = sum(podset.minimum for podset in gang.own_sets())
    able = np.flatnonzero(tree.real(level) & (_holds(freed, tree, gang, level) >= needed))
    order: list[int] = able[np.argsort(-_holds(now, tree, gang, level)[able], kind="stable")].tolist()
    return order
