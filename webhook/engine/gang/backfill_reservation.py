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

from operator import attrgetter
from typing import Final

import numpy as np

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.gang.caps import Caps
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.lasting_pods import LastingCluster, LastingOn, none_lasts
from webhook.engine.gang.pod_counts import count
from webhook.engine.gang.remaining import Remaining
from webhook.engine.gang.slices import pods_by_class, slice_gang
from webhook.engine.request import named_resources
from webhook.engine.snapshot.empty_cluster import empty_cluster
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree

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
