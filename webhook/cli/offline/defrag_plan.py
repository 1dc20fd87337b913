"""The plan of `defrag`: for what waits, in the leader's order, the fewest running pods to move (see `move_plan`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from webhook.cli.evictions import MovesOfOne, PodOnNode
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.engine.moves.movable import NoMoves
from webhook.engine.snapshot.ledger import Reservation
from webhook.model.raw import Raw
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.move_plan import MovedPod, MovesOfUnit, RunningPods
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.rules import Rules
from webhook.views.defragmentation import DefragmentationView, Defragments, MoveView, PlaceView

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
    around = JudgementContext.of(cluster, rules)
    units = around.units()
    found = around.planner.moves(pods, units[:count])
    views = [_view(*one) for one in found.units]
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
    return Plan(views, found.running, len(units) - len(views), evictions)


def _view(unit: WaitingUnit, found: MovesOfUnit | NoMoves | str) -> DefragmentationView:
    view = DefragmentationView(
        unit.namespace,
        unit.shown_name,
        isinstance(unit.unit, GatedGang),
        len(unit.members),
        unit.priority,
        Defragments.UNKNOWN,
    )
    match found:
        case str():
            return replace(view, why=found)
        case NoMoves(certain=True):
            return replace(view, verdict=Defragments.NO_MOVES, why=_NONE)
        case NoMoves():
            return replace(view, verdict=Defragments.NOT_FOUND, why=_NOT_FOUND)
    moves = tuple(_move(moved, unit) for moved in found.moved)
    verdict = Defragments.MOVES if moves else Defragments.FITS
    return replace(view, verdict=verdict, starts=tuple(map(_place, found.starts)), moves=moves, at_least=found.at_least)


def _move(moved: MovedPod, unit: WaitingUnit) -> MoveView:
    place, why = moved.place, f"makes room for {unit.kind_of_object} {unit.namespace}/{unit.shown_name}"
    namespace, _, name = place.pod.partition("/")
    return MoveView(namespace, name, moved.node, moved.numa_nodes, place.node, tuple(sorted(place.numa)), why)


def _place(place: Reservation) -> PlaceView:
    return PlaceView(place.pod.partition("/")[2], place.node, tuple(sorted(place.numa)))
