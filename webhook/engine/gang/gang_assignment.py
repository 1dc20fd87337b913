"""Placement of a gang: from free amounts to a node and NUMA nodes for every pod.

Members that exclude each other take part of a resource made for that (webhook.engine.gang.exclusions).
0. A gang with a strict policy is placed without the nodes that do not enforce it, and on all nodes only if not every
   pod has a node then.
1. The gang is divided into slices: pods of one class under the same constraints (webhook.engine.gang.slices).
2. One class without constraints of subgroups: exact by sums alone (webhook.engine.gang.equal_pods).
3. Otherwise slice by slice, larger ones first; if that fails, an exact search (webhook.engine.gang.greedy_search).
4. Nodes whose admission only a replay can tell replay their pods. A rejected pod lowers the node's maximum, and the
   gang is placed again, within a budget (webhook.engine.gang.replays).
5. Parts in other topologies are placed one after the other (webhook.engine.gang.several_topologies).
6. Pods are assigned in order of rank. If there is no assignment, the answer says what is missing at each level
   (webhook.engine.gang.shortfall).
"""

from dataclasses import replace
from functools import partial

import numpy as np

from webhook.engine.enforcement import unenforced
from webhook.engine.gang.assignment_request import AssignmentRequest, Effort
from webhook.engine.gang.caps import Caps
from webhook.engine.gang.equal_pods import EqualPods, assign_equal
from webhook.engine.gang.exclusions import with_exclusions
from webhook.engine.gang.gang_spec import ANYWHERE, Gang
from webhook.engine.gang.greedy_search import Found, assign_mixed
from webhook.engine.gang.mean_preference import GangPreference
from webhook.engine.gang.pod_assignment import by_set, row_of, shared_out
from webhook.engine.gang.remaining import Remaining
from webhook.engine.gang.replays import Replays
from webhook.engine.gang.result import GangAssignment
from webhook.engine.gang.several_topologies import SeveralTopologies
from webhook.engine.gang.shortfall import shortfalls
from webhook.engine.gang.slices import SlicedGang, slice_gang
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.options import GangStrategy, Unenforced

DEFAULT_EFFORT = Effort()


def assign_gang(
    snapshot: Snapshot,
    tree: TopologyTree,
    gang: Gang,
    strategy: GangStrategy = GangStrategy.BIN_PACK,
    effort: Effort = DEFAULT_EFFORT,
) -> GangAssignment:
    """The assignment of a gang on the nodes of the snapshot; the tree must be of the same nodes.

    strategy: for a gang that names none.
    """
    if _may_avoid_unenforced(snapshot, gang):
        found = _assign(snapshot.allowing(Unenforced.DENY), tree, gang, strategy, effort)
        placed = sum(len(each.members) for part in found.by_topology() for each in part.assignments)
        if found.assigned and placed == sum(len(podset.members) for podset in gang.all_sets()):
            return replace(found, strategy=gang.strategy or strategy)
    return replace(_assign(snapshot, tree, gang, strategy, effort), strategy=gang.strategy or strategy)


def _may_avoid_unenforced(snapshot: Snapshot, gang: Gang) -> bool:
    """Whether some nodes come last for a pod of the gang, and others do not."""
    node_arrays = snapshot.node_arrays
    if node_arrays.unenforced is not Unenforced.LAST:
        return False
    requests = (PodRequest.of(podset.pod, podset.intent, node_arrays.resources) for podset in gang.all_sets())
    last = [found for request in requests if (found := unenforced(node_arrays, request)) is not None]
    return any(not found.all() for found in last)


def _assign(
    snapshot: Snapshot, tree: TopologyTree, gang: Gang, strategy: GangStrategy, effort: Effort
) -> GangAssignment:
    strategy = gang.strategy or strategy
    if gang.elsewhere:
        place = partial(_assign, strategy=strategy, effort=effort)
        return SeveralTopologies(snapshot, tree, gang, place).run()
    snapshot = snapshot.covering(name for podset in gang.all_sets() for name in named_resources(podset.pod))
    snapshot, gang = with_exclusions(snapshot, tree, gang)
    sliced = slice_gang(snapshot, tree, gang)
    caps = Caps()
    pod_slices = sliced.all_slices()
    if not any(len(pod_slice.members) for pod_slice in pod_slices):
        return GangAssignment(gang, snapshot, tree, True, Domain(ROOT, 0), (), tuple)
    preference = GangPreference(snapshot.node_arrays, tree, pod_slices)
    replays = Replays(snapshot, caps)
    while True:
        if _of_one_class(sliced):
            found, certain = _assign_equal(snapshot, tree, sliced, caps, strategy, preference), True
        else:
            found, certain = assign_mixed(AssignmentRequest(snapshot, tree, caps, strategy, effort, preference), sliced)
        if found is not None and replays.admitted(found):
            assignments = [each for pod_slices, row in found.rows for each in shared_out(pod_slices, row)]
            return GangAssignment(gang, snapshot, tree, True, found.domain, by_set(assignments), tuple)
        if found is None or not replays.may_go_on:
            # Together with others, a class may be limited more than necessary.
            certain = certain and found is None and not replays.left_out and (not caps or _of_one_class(sliced))
            why = partial(shortfalls, snapshot, tree, sliced, caps)
            return GangAssignment(gang, snapshot, tree, False, None, (), why, certain)


def _of_one_class(sliced: SlicedGang) -> bool:
    """Whether sums alone decide: equal pods with one constraint."""
    pod_slices = sliced.all_slices()
    return (
        all(
            pod_slice.pod_class is pod_slices[0].pod_class and pod_slice.constraint is ANYWHERE
            for pod_slice in pod_slices
        )
        and (len(pod_slices) == 1 or all(pod_slice.segments is None for pod_slice in pod_slices))
        and all(subgroup.constraint == ANYWHERE for subgroup in _all_subgroups(sliced))
    )


def _all_subgroups(sliced: SlicedGang) -> list[SlicedGang]:
    return [each for subgroup in sliced.subgroups for each in (subgroup, *_all_subgroups(subgroup))]


def _assign_equal(
    snapshot: Snapshot,
    tree: TopologyTree,
    sliced: SlicedGang,
    caps: Caps,
    strategy: GangStrategy,
    preference: GangPreference,
) -> Found | None:
    pod_slices = sliced.all_slices()
    remaining = Remaining(snapshot, tree, caps)
    slots, counted = remaining.slots(pod_slices[0].pod_class)
    pods = EqualPods(
        count=sum(len(pod_slice.members) for pod_slice in pod_slices),
        minimum=sum(pod_slice.minimum for pod_slice in pod_slices),
        constraint=sliced.constraint,
        segments=pod_slices[0].segments,
        strategy=strategy,
        members=sliced.running,
        preference=preference.of(pod_slices, slots),
    )
    plan = assign_equal(tree, slots, pods)
    if plan is None:
        return None
    last = [tree.order[tail].astype(np.int64) for tail in plan.tails]
    return Found(plan.domain, [(pod_slices, row_of(remaining.assign(counted, plan.nodes), last))])
