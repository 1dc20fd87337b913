"""Placement of a gang: from free amounts to a node and NUMA nodes for every pod.

1. The gang is divided into slices: pods of one class under the same constraints (webhook.engine.gang.slices).
2. One class without constraints of subgroups: exact by sums alone (webhook.engine.gang.equal_pods).
3. Otherwise slice by slice, larger ones first; if that fails, an exact search (webhook.engine.gang.mixed_pods).
4. Nodes whose admission only a replay can tell replay their pods. A rejected pod lowers the node's maximum, and the
   gang is placed again. Counts only decrease, so this ends.
5. Pods are assigned in order of rank. If there is no assignment, the answer says what is missing at each level
   (webhook.engine.gang.shortfall).
"""

from functools import partial

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.gang.admission_replay import replay
from webhook.engine.gang.assignment_request import Asked, Effort
from webhook.engine.gang.equal_pods import EqualPods, assign_equal
from webhook.engine.gang.gang_spec import ANYWHERE, Gang
from webhook.engine.gang.mean_preference import GangPreference
from webhook.engine.gang.mixed_pods import Found, assign_mixed
from webhook.engine.gang.pod_assignment import Row, by_set, row_of, shared_out
from webhook.engine.gang.pod_class import Kind
from webhook.engine.gang.remaining import Caps, Remaining
from webhook.engine.gang.result import GangAssignment
from webhook.engine.gang.shortfall import shortfalls
from webhook.engine.gang.slices import Part, cut
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
    """The assignment of a gang on the nodes of the snapshot; the tree must be of the same nodes."""
    snapshot = snapshot.covering(name for podset in gang.all_sets() for name in named_resources(podset.pod))
    part = cut(snapshot, tree, gang)
    caps = Caps()
    pod_slices = part.all_slices()
    if not any(len(pod_slice.members) for pod_slice in pod_slices):
        return GangAssignment(gang, snapshot, tree, True, Domain(ROOT, 0), (), tuple)
    preference = GangPreference(snapshot.node_arrays, tree, pod_slices)
    while True:
        if _of_one_kind(part):
            found, certain = _assign_equal(snapshot, tree, part, caps, strategy, preference), True
        else:
            found, certain = assign_mixed(Asked(snapshot, tree, caps, strategy, effort, preference), part)
        if found is None:
            # Together with others, a class may be limited more than necessary.
            certain = certain and (not caps or _of_one_kind(part))
            why = partial(shortfalls, snapshot, tree, part, caps)
            return GangAssignment(gang, snapshot, tree, False, None, (), why, certain)
        if _admitted(snapshot, found, caps):
            seats = [seats for pod_slices, row in found.rows for seats in shared_out(pod_slices, row)]
            return GangAssignment(gang, snapshot, tree, True, found.domain, by_set(seats), tuple)


def _of_one_kind(part: Part) -> bool:
    """Whether sums alone decide: equal pods with one constraint."""
    pod_slices = part.all_slices()
    return (
        all(pod_slice.kind is pod_slices[0].kind and pod_slice.constraint is ANYWHERE for pod_slice in pod_slices)
        and (len(pod_slices) == 1 or all(pod_slice.segments is None for pod_slice in pod_slices))
        and all(below.constraint == ANYWHERE for below in _below(part))
    )


def _below(part: Part) -> list[Part]:
    return [each for below in part.parts for each in (below, *_below(below))]


def _assign_equal(
    snapshot: Snapshot, tree: TopologyTree, part: Part, caps: Caps, strategy: GangStrategy, preference: GangPreference
) -> Found | None:
    pod_slices = part.all_slices()
    remaining = Remaining(snapshot, tree, caps)
    slots, counted = remaining.slots(pod_slices[0].kind)
    pods = EqualPods(
        count=sum(len(pod_slice.members) for pod_slice in pod_slices),
        minimum=sum(pod_slice.minimum for pod_slice in pod_slices),
        constraint=part.constraint,
        segments=pod_slices[0].segments,
        strategy=strategy,
        members=part.running,
        preference=preference.of(pod_slices, slots),
    )
    plan = assign_equal(tree, slots, pods)
    if plan is None:
        return None
    last = None if plan.tail is None else tree.order[plan.tail].astype(np.int64)
    return Found(plan.domain, [(pod_slices, row_of(remaining.seat(counted, plan.nodes), last))])


def _admitted(snapshot: Snapshot, found: Found, caps: Caps) -> bool:
    """Whether every node admits its pods where that is uncertain; rejections are added to the caps.

    Replayed pods get the NUMA nodes from the replay.
    """
    kinds = {id(pod_slices[0].kind): pod_slices[0].kind for pod_slices, _ in found.rows}
    open_to = {key: kind.ways.open for key, kind in kinds.items()}
    if all(where is None for where in open_to.values()):
        return True
    seats: dict[int, list[tuple[Kind, Row, int]]] = {}
    for pod_slices, row in found.rows:
        for at, node in enumerate(row.nodes.tolist()):
            seats.setdefault(node, []).append((pod_slices[0].kind, row, at))
    asked = {
        node: taken
        for node, taken in seats.items()
        if any((where := open_to[id(kind)]) is not None and where[node] for kind, _, _ in taken)
    }
    admitted = replay(snapshot, {node: [kind for kind, _, _ in taken] for node, taken in asked.items()})
    refused = False
    for node, taken in asked.items():
        for (_, row, at), pod in zip(taken, admitted[node], strict=False):
            row.masks[at] = pod.mask
        if len(admitted[node]) < len(taken):
            refused = True
            _cap(caps, node, [kind for kind, _, _ in taken], len(admitted[node]), open_to)
    return not refused


def _cap(caps: Caps, node: int, kinds: list[Kind], admitted: int, open_to: dict[int, Bools | None]) -> None:
    """Note a node's rejection: the node takes as many pods of the rejected class as it admitted.

    If that class is counted exactly, another one took more than expected: then the other one's limit is reduced by
    one.
    """
    blamed = kinds[admitted]
    most = sum(kind is blamed for kind in kinds[:admitted])
    where = open_to[id(blamed)]
    if where is None or not where[node]:
        blamed = next(kind for kind in kinds if (at := open_to[id(kind)]) is not None and at[node])
        most = sum(kind is blamed for kind in kinds) - 1
    caps[id(blamed), node] = most
