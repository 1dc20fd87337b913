"""Placement of a gang: from free amounts to a node and NUMA nodes for every pod.

1. A gang with a strict policy is placed without the nodes that do not enforce it, and on all nodes only if not every
   pod has a node then.
2. Members that exclude each other take part of a resource made for that (`with_exclusions`).
3. The gang is divided into slices: pods of one class under the same constraints (webhook.engine.gang.slices).
4. One class without constraints of subgroups: exact by sums alone (webhook.engine.gang.equal_pods).
5. Otherwise slice by slice, larger ones first; if that fails, an exact search (webhook.engine.gang.greedy_search).
6. Nodes whose admission only a replay can tell replay their pods (`Replays`). A rejected pod lowers the node's maximum,
   and the gang is placed again, within a budget.
7. Parts in other topologies are placed one after the other (webhook.engine.gang.several_topologies).
8. Pods are assigned in order of rank. If there is no assignment, the answer says what is missing at each level
   (webhook.engine.gang.shortfall).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.enforcement import unenforced
from webhook.engine.filter.node_fit import closed
from webhook.engine.gang.admission_replay import Hashes, replay, state_hashes
from webhook.engine.gang.assignment_request import AssignmentRequest, Effort
from webhook.engine.gang.equal_pods import EqualPods, assign_equal
from webhook.engine.gang.gang_spec import ANYWHERE, Gang, PodSet
from webhook.engine.gang.greedy_search import Found, assign_mixed
from webhook.engine.gang.mean_preference import GangPreference
from webhook.engine.gang.pod_assignment import by_set, row_of, shared_out
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import UNBOUNDED, Caps, Positions, count
from webhook.engine.gang.remaining import Remaining
from webhook.engine.gang.result import GangAssignment
from webhook.engine.gang.several_topologies import SeveralTopologies
from webhook.engine.gang.shortfall import shortfalls
from webhook.engine.gang.slices import SlicedGang, slice_gang
from webhook.engine.kubelet.all_sets import MOST_ENTRIES, SETUP_ENTRIES, nodes_within
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.formats.kubernetes.exclusions import Limit, limits_of
from webhook.model.options import GangStrategy, Unenforced

if TYPE_CHECKING:
    from webhook.engine.gang.pod_assignment import Row

# Each round limits all nodes of its plan, and ever more others. Where 5,000 nodes all differ, seven are enough.
MOST_ROUNDS: Final = 32
# Eight times that of one decision: 0.4 s. 2,700 different nodes can each replay three pods of two containers.
_MOST_ENTRIES: Final = 8 * MOST_ENTRIES
# Other nodes that are replayed after the first rejected plan; four times as many each time. Six rounds reach 16,000.
_FIRST_OTHERS: Final = 16
_GROWTH: Final = 4


class Replays:
    """The replays of one gang in one snapshot, within a budget. The limits that they find are added to the caps.

    1. The nodes of a plan are replayed. A node that rejects a pod of a class admits as many as it did before: its
       limit.
    2. Other nodes would reject such pods, too, and each would cost a plan of its own. So all nodes in the same state
       get the same limit, and after each rejected plan ever more others are replayed at once.
    3. When the budget is spent, all nodes that were not replayed are left out: the gang may wait although it fits
       there. It is tried again after the next change in the cluster, and then with other nodes first.
    4. After `MOST_ROUNDS` rejected plans no other is made.

    Without these bounds, one pod of many containers took the leader a minute on a thousand nodes.
    """

    def __init__(self, snapshot: Snapshot, caps: Caps) -> None:
        self.left_out = False
        """Whether nodes were left out that may hold pods."""
        self._snapshot = snapshot
        self._n = snapshot.node_arrays.n
        self._caps = caps
        self._rounds = 0
        self._left = _MOST_ENTRIES
        self._others = _FIRST_OTHERS
        self._tried: dict[PodClass, Bools] = {}

    @property
    def may_go_on(self) -> bool:
        """Whether another plan may be made after a rejected one."""
        return self._rounds < MOST_ROUNDS

    def admitted(self, found: Found) -> bool:
        """Whether every node admits its pods where that is uncertain. These pods get the NUMA nodes of the replay."""
        by_node: dict[int, list[tuple[PodClass, Row, int]]] = {}
        for pod_slices, row in found.rows:
            for at, node in enumerate(row.nodes.tolist()):
                by_node.setdefault(node, []).append((pod_slices[0].pod_class, row, at))
        sequences = {
            node: [pod_class for pod_class, _, _ in taken]
            for node, taken in by_node.items()
            if any(_is_open(pod_class, node) for pod_class, _, _ in taken)
        }
        if not sequences:
            return True
        admitted = replay(self._snapshot, sequences)
        for node in sequences:
            for (_, row, at), pod in zip(by_node[node], admitted[node], strict=False):
                row.masks[at] = pod.mask
        rejecting = [node for node, sequence in sequences.items() if len(admitted[node]) < len(sequence)]
        if not rejecting:
            return True
        self._rounds += 1
        self._spend(sequences)
        for node, sequence in sequences.items():
            for pod_class in set(sequence):
                self._tried_of(pod_class)[node] = True
        for node in rejecting:
            self._limit(node, sequences[node], len(admitted[node]))
        uniform = (sequence for node in rejecting if _is_uniform(sequence := sequences[node]))
        for pod_class, pods in {sequence[0]: len(sequence) for sequence in uniform}.items():
            self._try_others(pod_class, pods)
        self._others *= _GROWTH
        if self._left <= 0 or self._rounds >= MOST_ROUNDS // 2:
            self._leave_out_the_rest({pod_class for sequence in sequences.values() for pod_class in sequence})
        return False

    def _limit(self, node: int, pod_classes: list[PodClass], admitted: int) -> None:
        """Note a node's rejection: it takes as many pods of the rejected class as it admitted.

        If that class is counted exactly, another one took more than expected: then the other one's limit is reduced by
        one. Where all pods are of one class, the same goes for all nodes in the same state.
        """
        blamed = pod_classes[admitted]
        most = sum(pod_class is blamed for pod_class in pod_classes[:admitted])
        if not _is_open(blamed, node):
            blamed = next(pod_class for pod_class in pod_classes if _is_open(pod_class, node))
            most = sum(pod_class is blamed for pod_class in pod_classes) - 1
        nodes = np.array([node])
        if _is_uniform(pod_classes):
            (nodes,) = (self._open(blamed) & (self._hashes == self._hashes[node])).nonzero()
        self._lower(blamed, nodes, most)

    def _try_others(self, pod_class: PodClass, pods: int) -> None:
        """Replay so many pods of a class on nodes that no plan has tried."""
        counted = self._caps.limited(pod_class, self._caps.count(self._snapshot, pod_class))
        untried = self._open(pod_class) & ~self._tried_of(pod_class) & (counted.nodes > 0)
        # Where the budget ends before the nodes do, others are tried in another state of the cluster.
        order = np.roll(np.flatnonzero(untried), -self._snapshot.node_arrays.generation)
        _, first = np.unique(self._hashes[order], return_index=True)
        z = self._snapshot.node_arrays.z
        exact = nodes_within(min(self._left // pods, MOST_ENTRIES), _containers(pod_class), z)
        chosen = np.sort(first)[: min(self._others, exact)]
        sequences = {node: [pod_class] * pods for node in order[chosen].tolist()}
        if not sequences:
            return
        self._spend(sequences)
        admitted = replay(self._snapshot, sequences)
        for node, found in admitted.items():
            (equal,) = (untried & (self._hashes == self._hashes[node])).nonzero()
            self._lower(pod_class, equal, len(found) if len(found) < pods else UNBOUNDED)

    def _leave_out_the_rest(self, pod_classes: set[PodClass]) -> None:
        for pod_class in pod_classes:
            (untried,) = (self._open(pod_class) & ~self._tried_of(pod_class)).nonzero()
            if len(untried):
                self.left_out = True
                self._lower(pod_class, untried, 0)

    def _lower(self, pod_class: PodClass, nodes: Positions, most: int) -> None:
        self._tried_of(pod_class)[nodes] = True
        self._caps.lower(pod_class, nodes, most, self._n)

    def _tried_of(self, pod_class: PodClass) -> Bools:
        if pod_class not in self._tried:
            self._tried[pod_class] = np.zeros(self._n, dtype=np.bool_)
        return self._tried[pod_class]

    def _spend(self, sequences: Mapping[int, Sequence[PodClass]]) -> None:
        """Nodes in one state with the same pods are replayed once."""
        distinct = {(int(self._hashes[node]), *sequence): sequence for node, sequence in sequences.items()}
        z, turns = self._snapshot.node_arrays.z, max(map(len, sequences.values()))
        for pod_class, pods in Counter(chain.from_iterable(distinct.values())).items():
            self._left -= _containers(pod_class) * ((pods << z) + turns * SETUP_ENTRIES)

    def _open(self, pod_class: PodClass) -> Bools:
        """Bool [n]: the nodes of which only a replay can tell."""
        where = pod_class.ways.open
        return np.zeros(self._n, dtype=np.bool_) if where is None else where

    @cached_property
    def _hashes(self) -> Hashes:
        """uint64 [n]: equal for nodes in the same state."""
        return state_hashes(self._snapshot)


def _is_open(pod_class: PodClass, node: int) -> bool:
    return pod_class.ways.open is not None and bool(pod_class.ways.open[node])


def _is_uniform(sequence: Sequence[PodClass]) -> bool:
    """Whether all pods are of one class."""
    return len(set(sequence)) == 1


def _containers(pod_class: PodClass) -> int:
    return max(1, len(pod_class.pod.containers))


def with_exclusions(snapshot: Snapshot, tree: TopologyTree, gang: Gang) -> tuple[Snapshot, Gang]:
    """The snapshot and the gang with the limits by which its members exclude each other, as resources of the nodes.

    Both are unchanged if the members do not exclude each other.
    1. Each limit (`kubernetes.exclusions`) becomes a resource that no other pod requests. What a member takes of it is
       added to its pod.
    2. A limit of nodes: each offers its room, less what running members take.
    3. A limit of domains: the room of each goes to those of its nodes that hold most of the pods. Sums over domains at
       least as coarse are exact. In a gang that must be within one domain of a finer level, it is the room of that one.
    4. Pods that spread may exceed `maxSkew` once every domain that they may go to has a member: by as many as each has.

    So counting, searching and explaining a gang treat these limits as they treat GPUs.
    """
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
