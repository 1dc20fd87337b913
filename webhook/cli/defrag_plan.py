"""The plan of `defrag`: for what waits, in the leader's order, the fewest running pods to move.

1. The waiting pods and gangs are sorted by priority, then age.
2. For each, the fewest movable pods of no higher priority are searched (see `engine.moves`). Pods of a higher priority
   stay: the next one that their controller creates would be placed before what waits.
3. The moves of one are made before the next is searched: its places are taken, and a pod moves at most once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from webhook.cli.evictions import MovesOfOne, PodOnNode
from webhook.cli.judgement_context import JudgementContext, Owners, Raw
from webhook.cli.movable_pods import RunningPods, running_pods
from webhook.cli.offline_cluster import Cluster
from webhook.cli.waiting_units import WaitingUnit, searched, waiting_units, why_not_judged
from webhook.controllers.placement.gang_search import GatedGang, assign_within
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.controllers.preemption.preemptor import members_of
from webhook.engine.moves.gang_moves import WaitingGang, moves_for_gang
from webhook.engine.moves.movable import Movables, Moves, NoMoves, Placeable
from webhook.engine.moves.planned_cluster import PlannedCluster
from webhook.engine.moves.pod_moves import moves_for_pod
from webhook.engine.request import named_resources
from webhook.engine.snapshot.ledger import Reservation
from webhook.model.rules import Rules
from webhook.views.defragmentation import DefragmentationView, Defragments, MoveView, PlaceView
from webhook.views.freeing import Holdings
from webhook.views.preemption_candidates import candidates_below

# Higher than any pod's: those of a higher priority than what waits are left out later.
_ANY_PRIORITY: Final = 1 << 40
_NONE: Final = "no moves of pods that may be moved let it start"
_NOT_FOUND: Final = "no moves were found within the limits of the search"


@dataclass
class Plan:
    """The plan for the first that wait."""

    views: list[DefragmentationView]
    running: RunningPods
    left_out: int
    """How many more wait, for which nothing was searched."""
    evictions: Sequence[MovesOfOne] = ()
    """The same for the API server: those that need moves."""

    @property
    def moves(self) -> list[MoveView]:
        """All moves, in order."""
        return [move for view in self.views for move in view.moves]


def plan_moves(cluster: Cluster, pods: Iterable[Raw], rules: Rules, count: int) -> Plan:
    """The plan for the first `count` that wait. pods: the pod objects of the cluster."""
    owners = Owners(cluster.others, cluster.asked_by(rules))
    around = JudgementContext(rules, owners, cluster.running, cluster.assigned_members, cluster.gated)
    units = waiting_units(cluster, around)
    planner = _Planner(cluster, pods, around, units[:count])
    views = [planner.plan(one) for one in units[:count]]
    bound, gated = cluster.cache.bound_pods.by_key(), cluster.gated
    evictions = [
        MovesOfOne(
            {key: bound[key].uid for move in view.moves if (key := f"{move.namespace}/{move.name}")},
            [
                PodOnNode(key, str(gated[key]["metadata"].get("uid") or ""), place.node)
                for place in view.starts
                if (key := f"{view.namespace}/{place.name}")
            ],
        )
        for view in views
        if view.moves
    ]
    return Plan(views, planner.running, len(units) - len(views), evictions)


class _Planner:
    def __init__(
        self, cluster: Cluster, pods: Iterable[Raw], around: JudgementContext, units: Sequence[WaitingUnit]
    ) -> None:
        cache = cluster.cache
        self._cluster = cluster
        self._around = around
        self._candidates = candidates_below(cache, _ANY_PRIORITY)
        self.running = running_pods(self._candidates, pods, cache, around.rules)
        self._holdings = Holdings(cache)
        self._left = dict(self.running.movable)
        self._allowed = list(self._candidates.allowed)
        waiting = [member.pod for one in units for member in members_of(one.unit)]
        moving = [one.pod.pod for one in self.running.movable.values()]
        names = dict.fromkeys(name for pod in (*waiting, *moving) for name in named_resources(pod))
        nodes = cache.snapshot().nodes
        self._planned = PlannedCluster(nodes, names, self._holdings.on, self._candidates.ending)
        self._hopeless: dict[object, DefragmentationView] = {}
        """Of single pods: the cluster only becomes fuller."""

    def plan(self, one: WaitingUnit) -> DefragmentationView:
        """The moves for one, which are made for the next."""
        view = DefragmentationView(
            one.namespace,
            one.name,
            isinstance(one.unit, GatedGang),
            len(members_of(one.unit)),
            one.priority,
            Defragments.UNKNOWN,
        )
        if why := why_not_judged(one):
            return replace(view, verdict=Defragments.UNKNOWN, why=why)
        kind = (one.unit.request_signature, one.priority) if isinstance(one.unit, GatedPod) else None
        if kind is not None and kind in self._hopeless:
            known = self._hopeless[kind]
            return replace(view, verdict=known.verdict, why=known.why)
        found = self._search(one)
        if isinstance(found, str):
            return replace(view, verdict=Defragments.UNKNOWN, why=found)
        if isinstance(found, NoMoves):
            verdict = Defragments.NO_MOVES if found.certain else Defragments.NOT_FOUND
            view = replace(view, verdict=verdict, why=_NOT_FOUND if verdict is Defragments.NOT_FOUND else _NONE)
            if kind is not None:
                self._hopeless[kind] = view
            return view
        self._make(found)
        starts = tuple(_place(place) for place in found.starts)
        moves = tuple(self._move(node, place, one) for node, place in found.moved)
        verdict = Defragments.MOVES if moves else Defragments.FITS
        return replace(view, verdict=verdict, starts=starts, moves=moves, at_least=found.at_least)

    def _search(self, one: WaitingUnit) -> Moves | NoMoves | str:
        options = self._around.rules.engine
        lower = [pod for pod in self._left.values() if pod.candidate.priority <= one.priority]
        movables = Movables.of(lower, self._allowed)
        unit = one.unit
        if isinstance(unit, GatedPod):
            return moves_for_pod(self._planned, _placeable(unit), movables, options)
        gang = searched(one, unit, self._cluster, self._around)
        if isinstance(gang, str):
            return gang
        assembled, tree, rules = gang.assembled, gang.placement.tree, self._around.rules
        waiting = WaitingGang(
            assembled.gang,
            {member.pod.name: _placeable(member) for member in unit.members},
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

    def _move(self, node: str, place: Reservation, one: WaitingUnit) -> MoveView:
        held = next(pod for pod in self._holdings.on(node).pods if pod.key == place.pod)
        namespace, _, name = place.pod.partition("/")
        numa = tuple(sorted({*held.numa, *held.reserved}))
        return MoveView(
            namespace, name, node, numa, place.node, tuple(sorted(place.numa)), f"makes room for {one.text}"
        )


def _placeable(gated: GatedPod) -> Placeable:
    return Placeable(gated.key, gated.pod, gated.intent)


def _place(place: Reservation) -> PlaceView:
    return PlaceView(place.pod.partition("/")[2], place.node, tuple(sorted(place.numa)))
