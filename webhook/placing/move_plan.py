"""Which running pods to move so that what waits can start, and which stay where they are.

1. The waiting pods and gangs come in the leader's order.
2. For each, the fewest movable pods of no higher priority are searched (see `engine.moves`). Pods of a higher priority
   stay: the next one that their controller creates would be placed before what waits.
3. The moves of one are made before the next is searched: its places are taken, and a pod moves at most once.

A pod moves by its eviction: its controller creates the next one, which gets another place. So a pod that nothing
recreates, or whose next place cannot be predicted, stays.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webhook.engine.freeing import HeldPod
from webhook.engine.moves.gang_moves import WaitingGang, moves_for_gang
from webhook.engine.moves.movable import Movable, Movables, Moves, NoMoves, Placeable
from webhook.engine.moves.planned_cluster import PlannedCluster
from webhook.engine.moves.pod_moves import moves_for_pod
from webhook.engine.preemption.candidates import Candidate, Candidates
from webhook.engine.request import named_resources
from webhook.engine.snapshot.ledger import Reservation
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.membership import membership_of
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.model.errors import UserError
from webhook.model.limits import check_annotations
from webhook.model.names import MANAGED_FIELDS
from webhook.model.raw import Raw
from webhook.placing.gang.gang_search import GangSearch, assign_within
from webhook.placing.node_holdings import Holdings
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.preemption_candidates import candidates_below
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_cache import ClusterCache
from webhook.state.delegated_pods import why_delegated
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_unmanaged

Search = Callable[[WaitingUnit], GangSearch | NoAssignment]
"""Puts a gang into the engine's terms, or says why it cannot be placed."""

# Source: kubernetes pkg/apis/scheduling (SystemCriticalPriority).
_SYSTEM_CRITICAL: Final = 2_000_000_000
# Controllers that create the next pod at once, whatever became of the last one. A Job may count an eviction as a
# failure, and of other kinds it is not known.
_RECREATE: Final = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
_DAEMON_SET: Final = "DaemonSet"
# Annotation -> the value with which a pod's owner asks that it is not evicted, of Cluster Autoscaler and Karpenter.
_PROTECTED: Final = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}


# Higher than any pod's: those of a higher priority than what waits are left out later.
_ANY_PRIORITY: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class MovedPod:
    """A pod that moves."""

    node: str
    """Where it is now."""
    numa_nodes: tuple[int, ...]
    """Its NUMA nodes there."""
    place: Reservation
    """Where it could go."""


@dataclass(frozen=True, slots=True)
class MovesOfUnit:
    """Moves that let a waiting unit start. There may be none: it fits without."""

    starts: tuple[Reservation, ...]
    """Where each waiting pod would start."""
    moved: tuple[MovedPod, ...]
    at_least: int
    """No smaller set exists; as many as `moved` if it is certainly the fewest."""


class Unmovable(StrEnum):
    """Why a running pod is not moved."""

    NO_CONTROLLER = "NoController"
    """No ReplicaSet, StatefulSet or ReplicationController recreates it."""
    DAEMON_SET = "DaemonSet"
    """It belongs to its node."""
    SYSTEM_CRITICAL = "SystemCritical"
    """It has a system-critical priority."""
    GANG = "Gang"
    """It is a member of a gang, which could not go on without it."""
    UNMANAGED = "Unmanaged"
    """kube-scheduler places its next pod, and may put it where it was."""
    SCHEDULER = "Scheduler"
    """Only the scheduler can judge where it could go, e.g. because of its volumes."""
    PROTECTED = "Protected"
    """An annotation asks that it is not evicted."""
    BUDGETS = "Budgets"
    """A PodDisruptionBudget allows no eviction now, or several budgets count it."""
    NOT_RUNNING = "NotRunning"
    """It does not run yet, or cannot be read."""


@dataclass(frozen=True, slots=True)
class RunningPods:
    """The running pods of the cluster, by whether they may be moved."""

    movable: Mapping[str, Movable]
    """By namespace/name."""
    unmovable: Mapping[Unmovable, int]
    """How many there are of each reason. Static pods are not counted."""


def running_pods(candidates: Candidates, raws: Iterable[Raw], cache: ClusterCache, rules: Rules) -> RunningPods:
    """All pods with a node. raws: their objects; others may be among them."""
    by_key = {f"{raw['metadata'].get('namespace') or 'default'}/{raw['metadata']['name']}": raw for raw in raws}
    holdings = Holdings(cache)
    held = {pod.key: pod for node in candidates.by_node for pod in holdings.on(node).pods}
    movable: dict[str, Movable] = {}
    counts: Counter[Unmovable] = Counter()
    for key, candidate in candidates.pods.items():
        raw = by_key.get(key)
        why = Unmovable.NOT_RUNNING if raw is None else why_unmovable(raw, candidate, candidates, rules)
        found = None if why is not None or raw is None or key not in held else _movable(raw, candidate, held[key])
        if found is None:
            counts[why or Unmovable.NOT_RUNNING] += 1
        else:
            movable[key] = found
    return RunningPods(movable, counts)


def why_unmovable(raw: Raw, candidate: Candidate, candidates: Candidates, rules: Rules) -> Unmovable | None:
    """Why the pod stays where it is; None if it may be moved."""
    metadata = raw["metadata"]
    annotations = metadata.get("annotations") or {}
    kinds = {owner.get("kind") for owner in metadata.get("ownerReferences") or () if owner.get("controller")}
    if _DAEMON_SET in kinds:
        return Unmovable.DAEMON_SET
    if candidate.priority >= _SYSTEM_CRITICAL:
        return Unmovable.SYSTEM_CRITICAL
    if candidate.gang or membership_of(raw) is not None:
        return Unmovable.GANG
    if not kinds & _RECREATE:
        return Unmovable.NO_CONTROLLER
    if any(annotations.get(name) == value for name, value in _PROTECTED.items()):
        return Unmovable.PROTECTED
    if why_unmanaged(raw, rules) is not None:
        return Unmovable.UNMANAGED
    if why_delegated(raw) is not None:
        return Unmovable.SCHEDULER
    # The eviction API refuses a pod that several budgets count.
    if len(candidate.budgets) > 1 or any(candidates.allowed[number] <= 0 for number in candidate.budgets):
        return Unmovable.BUDGETS
    if (raw.get("status") or {}).get("phase") != "Running":
        return Unmovable.NOT_RUNNING
    return None


def _movable(raw: Raw, candidate: Candidate, held: HeldPod) -> Movable | None:
    """The pod as its controller would create it again: without the node that it was placed on."""
    annotations = raw["metadata"].get("annotations") or {}
    try:
        check_annotations(annotations, with_ours=True)
        users = without_ours(raw, ManagedFields.parse(annotations.get(MANAGED_FIELDS)))
        spec = {name: value for name, value in users["spec"].items() if name != "nodeName"}
        pod = Pod.from_object({**users, "spec": spec})
        intent = parse_numa_intent(annotations)[0]
    except UserError:
        return None
    alike = candidate.node, candidate.workload, candidate.budgets, repr((held.requests, held.numa, held.reserved))
    return Movable(candidate, Placeable(candidate.key, pod, intent), alike)


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The moves for each of the waiting units, in order."""

    running: RunningPods
    units: tuple[tuple[WaitingUnit, MovesOfUnit | NoMoves | str], ...]
    """Each with its moves; a text: why no move can be judged for it."""


def plan_moves(
    state: ClusterCache, rules: Rules, raws: Iterable[Raw], units: Sequence[WaitingUnit], search: Search
) -> MovePlan:
    """The plan. raws: the objects of the pods with a node; others may be among them."""
    planning = _Planning(state, rules, raws, units, search)
    return MovePlan(planning.running, tuple((one, planning.plan(one)) for one in units))


class _Planning:
    def __init__(
        self, state: ClusterCache, rules: Rules, raws: Iterable[Raw], units: Sequence[WaitingUnit], search: Search
    ) -> None:
        candidates = candidates_below(state, _ANY_PRIORITY)
        self.running = running_pods(candidates, raws, state, rules)
        self._rules = rules
        self._search_gang = search
        self._holdings = Holdings(state)
        self._left = dict(self.running.movable)
        self._allowed = list(candidates.allowed)
        waiting = [member.pod for one in units for member in one.members]
        moving = [one.pod.pod for one in self.running.movable.values()]
        names = dict.fromkeys(name for pod in (*waiting, *moving) for name in named_resources(pod))
        self._planned = PlannedCluster(state.snapshot().nodes, names, self._holdings.on, candidates.ending)
        self._hopeless: dict[object, NoMoves] = {}
        """Of single pods: the cluster only becomes fuller."""

    def plan(self, one: WaitingUnit) -> MovesOfUnit | NoMoves | str:
        """The moves for one, which are made for the next."""
        for member in one.members:
            if (why := member.delegated_why) is not None:
                return f"only the scheduler can judge its {why}"
        kind = one.kind if isinstance(one.unit, GatedPod) else None
        if kind in self._hopeless:
            return self._hopeless[kind]
        found = self._search(one)
        if isinstance(found, NoMoves) and kind is not None:
            self._hopeless[kind] = found
        if isinstance(found, Moves):
            self._make(found)
            return MovesOfUnit(found.starts, tuple(self._moved(*each) for each in found.moved), found.at_least)
        return found

    def _search(self, one: WaitingUnit) -> Moves | NoMoves | str:
        options = self._rules.engine
        lower = [pod for pod in self._left.values() if pod.candidate.priority <= one.priority]
        movables = Movables.of(lower, self._allowed)
        if isinstance(one.unit, GatedPod):
            return moves_for_pod(self._planned, _placeable(one.unit), movables, options)
        gang = self._search_gang(one)
        if isinstance(gang, NoAssignment):
            return gang.text
        assembled, tree, rules = gang.assembled, gang.placement.tree, self._rules
        waiting = WaitingGang(
            assembled.gang,
            {member.pod.name: _placeable(member) for member in one.members},
            lambda view: assign_within(view, tree, assembled, rules),
            tree,
            assembled.within,
        )
        return moves_for_gang(self._planned, waiting, movables, options)

    def _make(self, found: Moves) -> None:
        moved = [self._left.pop(place.pod) for _, place in found.moved]
        for pod in moved:
            for number in pod.candidate.budgets:
                self._allowed[number] -= 1
        self._planned.apply(moved, (*found.starts, *(place for _, place in found.moved)))

    def _moved(self, node: str, place: Reservation) -> MovedPod:
        held = next(pod for pod in self._holdings.on(node).pods if pod.key == place.pod)
        return MovedPod(node, tuple(sorted({*held.numa, *held.reserved})), place)


def _placeable(gated: GatedPod) -> Placeable:
    return Placeable(gated.key, gated.pod, gated.intent)
