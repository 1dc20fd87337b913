"""Placement of a gang: from free amounts to a node and NUMA nodes for every pod.

1. The gang is divided into slices: pods of one class under the same constraints (webhook.engine.gang.slices).
2. One class without constraints of subgroups: exact by sums alone (webhook.engine.gang.equal_pods).
3. Otherwise slice by slice, larger ones first; if that fails, an exact search (webhook.engine.gang.mixed_pods).
4. Nodes whose admission only a replay can tell replay their pods. A rejected pod lowers the node's maximum, and the
   gang is placed again. Counts only decrease, so this ends.
5. Parts in other topologies are placed one after the other (webhook.engine.gang.several_topologies).
6. Pods are assigned in order of rank. If there is no assignment, the answer says what is missing at each level
   (webhook.engine.gang.shortfall).
"""

from functools import partial

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.gang.admission_replay import replay
from webhook.engine.gang.assignment_request import AssignmentRequest, Effort
from webhook.engine.gang.equal_pods import EqualPods, assign_equal
from webhook.engine.gang.gang_spec import ANYWHERE, Gang
from webhook.engine.gang.mean_preference import GangPreference
from webhook.engine.gang.mixed_pods import Found, assign_mixed
from webhook.engine.gang.pod_assignment import Row, by_set, row_of, shared_out
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.remaining import Caps, Remaining
from webhook.engine.gang.result import GangAssignment
from webhook.engine.gang.several_topologies import SeveralTopologies
from webhook.engine.gang.shortfall import shortfalls
from webhook.engine.gang.slices import SlicedGang, slice_gang
from webhook.engine.request import named_resources
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.options import GangStrategy

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
    strategy = gang.strategy or strategy
    if gang.elsewhere:
        place = partial(assign_gang, strategy=strategy, effort=effort)
        return SeveralTopologies(snapshot, tree, gang, place).run()
    snapshot = snapshot.covering(name for podset in gang.all_sets() for name in named_resources(podset.pod))
    sliced = slice_gang(snapshot, tree, gang)
    caps = Caps()
    pod_slices = sliced.all_slices()
    if not any(len(pod_slice.members) for pod_slice in pod_slices):
        return GangAssignment(gang, snapshot, tree, True, Domain(ROOT, 0), (), tuple)
    preference = GangPreference(snapshot.node_arrays, tree, pod_slices)
    while True:
        if _of_one_class(sliced):
            found, certain = _assign_equal(snapshot, tree, sliced, caps, strategy, preference), True
        else:
            found, certain = assign_mixed(AssignmentRequest(snapshot, tree, caps, strategy, effort, preference), sliced)
        if found is None:
            # Together with others, a class may be limited more than necessary.
            certain = certain and (not caps or _of_one_class(sliced))
            why = partial(shortfalls, snapshot, tree, sliced, caps)
            return GangAssignment(gang, snapshot, tree, False, None, (), why, certain)
        if _admitted(snapshot, found, caps):
            assignments = [each for pod_slices, row in found.rows for each in shared_out(pod_slices, row)]
            return GangAssignment(gang, snapshot, tree, True, found.domain, by_set(assignments), tuple)


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


def _admitted(snapshot: Snapshot, found: Found, caps: Caps) -> bool:
    """Whether every node admits its pods where that is uncertain; rejections are added to the caps.

    Replayed pods get the NUMA nodes from the replay.
    """
    pod_classes = {id(pod_slices[0].pod_class): pod_slices[0].pod_class for pod_slices, _ in found.rows}
    open_to = {key: pod_class.ways.open for key, pod_class in pod_classes.items()}
    if all(where is None for where in open_to.values()):
        return True
    by_node: dict[int, list[tuple[PodClass, Row, int]]] = {}
    for pod_slices, row in found.rows:
        for at, node in enumerate(row.nodes.tolist()):
            by_node.setdefault(node, []).append((pod_slices[0].pod_class, row, at))
    asked = {
        node: taken
        for node, taken in by_node.items()
        if any((where := open_to[id(pod_class)]) is not None and where[node] for pod_class, _, _ in taken)
    }
    admitted = replay(snapshot, {node: [pod_class for pod_class, _, _ in taken] for node, taken in asked.items()})
    refused = False
    for node, taken in asked.items():
        for (_, row, at), pod in zip(taken, admitted[node], strict=False):
            row.masks[at] = pod.mask
        if len(admitted[node]) < len(taken):
            refused = True
            _cap(caps, node, [pod_class for pod_class, _, _ in taken], len(admitted[node]), open_to)
    return not refused


def _cap(caps: Caps, node: int, pod_classes: list[PodClass], admitted: int, open_to: dict[int, Bools | None]) -> None:
    """Note a node's rejection: the node takes as many pods of the rejected class as it admitted.

    If that class is counted exactly, another one took more than expected: then the other one's limit is reduced by
    one.
    """
    blamed = pod_classes[admitted]
    most = sum(pod_class is blamed for pod_class in pod_classes[:admitted])
    where = open_to[id(blamed)]
    if where is None or not where[node]:
        blamed = next(pod_class for pod_class in pod_classes if (at := open_to[id(pod_class)]) is not None and at[node])
        most = sum(pod_class is blamed for pod_class in pod_classes) - 1
    caps[id(blamed), node] = most
