"""The fewest pods to move so that a whole gang fits, and each of them fits elsewhere.

1. If the gang fits without, nothing moves.
2. The domains of the level that it requires in which it fits without all their movable pods; of these the
   `MOST_DOMAINS` that hold most of it now. Without such a level, the whole cluster.
3. All sets of one pod of a domain are tried, then of two, then of three, unless these are more than `MOST_SETS`. Equal
   pods of a workload count once. Of a set that lets the gang fit, the gang takes its places, then each pod that leaves
   needs another one (see `Relocation`).
4. Beyond that, the set that preemption would choose in each domain (see `engine.preemption.gang`): no pod of it can
   stay, but a smaller set may exist.

All pods that may move are worth the same. The gang's members take the places that the engine chooses, and no others
are tried: if the pods that leave have none beside these, the set does not count.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Final

from webhook.engine.arrays import Bools
from webhook.engine.gang.backfill_reservation import able_domains, nodes_of
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.result import GangAssignment
from webhook.engine.moves.movable import Movable, Movables, Moves, NoMoves, Placeable, cheapness
from webhook.engine.moves.planned_cluster import PlannedCluster, Relocation, Room
from webhook.engine.moves.pod_moves import LARGEST_EXACT, few_alike
from webhook.engine.preemption.candidates import NoVictims
from webhook.engine.preemption.gang import victims_for_gang
from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.options import Options

# As preemption.
MOST_DOMAINS: Final = 8
# Each is an assignment of the gang, 2 to 5 ms: some ten seconds for a gang.
MOST_SETS: Final = 2_000


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang that waits, in the engine's terms."""

    gang: Gang
    members: Mapping[str, Placeable]
    """By name."""
    assign: Callable[[Snapshot], GangAssignment]
    """Its assignment in a view of the cluster."""
    tree: TopologyTree
    within: Domain | None = None
    """The domain in which it has begun."""


def moves_for_gang(
    planned: PlannedCluster, waiting: WaitingGang, movables: Movables, options: Options
) -> Moves | NoMoves:
    """The moves; they are not made yet."""
    return _Search(planned, waiting, movables, options).run()


class _Search:
    def __init__(self, planned: PlannedCluster, waiting: WaitingGang, movables: Movables, options: Options) -> None:
        self._planned = planned
        self._waiting = waiting
        self._movables = movables
        self._options = options
        self._is_certain = True

    def run(self) -> Moves | NoMoves:
        """Steps 1 to 4."""
        room = self._planned.without()
        if (starts := self._starts(room, None)) is not None:
            return Moves(starts, (), 0)
        domains = self._domains()
        tried = 0
        for size in range(1, LARGEST_EXACT + 1):
            tried += sum(comb(len(few_alike(pods, size)), size) for _, pods in domains)
            if tried > MOST_SETS:
                self._is_certain = False
                return self._greedily(domains, size)
            found = [each for closed, pods in domains for each in self._of_size(pods, size, closed)]
            if found:
                moved, starts, places = min(found, key=lambda each: cheapness(each[0]))
                return _moves(moved, starts, places, size if self._is_certain else 1)
        return self._greedily(domains, LARGEST_EXACT + 1)

    def _domains(self) -> list[tuple[Bools | None, list[Movable]]]:
        """Step 2: the nodes outside each domain, and the pods inside that may move."""
        everything = list(self._movables.pods.values())
        level = self._waiting.gang.constraint.bound
        empty = self._planned.without(everything)
        if level == ROOT:
            return [(None, everything)] if self._waiting.assign(empty.snapshot).assigned else []
        tree = self._waiting.tree
        able = able_domains(empty.snapshot, self._planned.without().snapshot, tree, self._waiting.gang)
        if self._waiting.within is not None:
            able = [tree.ancestor(self._waiting.within, level).number]
        self._is_certain = len(able) <= MOST_DOMAINS
        index = self._planned.original.node_arrays.index
        found: list[tuple[Bools | None, list[Movable]]] = []
        for number in able[:MOST_DOMAINS]:
            closed = ~nodes_of(tree, Domain(level, number))
            inside = [one for one in everything if one.node in index and not closed[index[one.node]]]
            if inside and self._waiting.assign(empty.snapshot.closed(closed)).assigned:
                found.append((closed, inside))
        return found

    def _of_size(
        self, pods: Sequence[Movable], size: int, closed: Bools | None
    ) -> Iterator[tuple[tuple[Movable, ...], tuple[Reservation, ...], tuple[Reservation, ...]]]:
        """Step 3 in one domain."""
        for moved in combinations(few_alike(pods, size), size):
            if self._movables.respects_budgets(moved) and (found := self._beside(moved, closed)) is not None:
                yield moved, *found

    def _beside(
        self, moved: Sequence[Movable], closed: Bools | None
    ) -> tuple[tuple[Reservation, ...], tuple[Reservation, ...]] | None:
        """Where the members and the pods that leave would go; None if they have no room."""
        room = self._planned.without(moved)
        starts = self._starts(room, closed)
        if starts is None:
            return None
        relocation = Relocation(self._options)
        places = relocation.run(room.after(*starts), moved)
        # The gang might also start on other nodes, which leave more room.
        self._is_certain &= places is not None
        return None if places is None else (starts, places)

    def _starts(self, room: Room, closed: Bools | None) -> tuple[Reservation, ...] | None:
        """The places of the gang's members; None if it does not fit."""
        view = room.snapshot if closed is None else room.snapshot.closed(closed)
        assignment = self._waiting.assign(view)
        if not assignment.assigned:
            return None
        starts: list[Reservation] = []
        for pod in assignment.pods():
            place = room.on_node(self._waiting.members[pod.name], pod.node, self._options)
            if place is None:
                self._is_certain = False
                return None
            starts.append(place)
            room = room.after(place)
        return tuple(starts)

    def _greedily(self, domains: Sequence[tuple[Bools | None, list[Movable]]], size: int) -> Moves | NoMoves:
        """Step 4. size: smaller sets were all tried."""
        at_least = size if self._is_certain else 1
        found = []
        for closed, pods in domains:
            moved = self._victims(closed, pods)
            if moved and self._movables.respects_budgets(moved) and (room := self._beside(moved, closed)) is not None:
                found.append((moved, *room))
        if found:
            return _moves(*min(found, key=lambda each: cheapness(each[0])), at_least)
        return NoMoves(self._is_certain and not any(len(pods) >= size for _, pods in domains))

    def _victims(self, closed: Bools | None, pods: Sequence[Movable]) -> tuple[Movable, ...]:
        """The pods that would end for the gang if all of them had the same lower priority; none if none help."""

        def assign(view: Snapshot) -> GangAssignment:
            view = self._planned.room_in(view).snapshot
            return self._waiting.assign(view if closed is None else view.closed(closed))

        found = victims_for_gang(
            self._planned.original,
            self._waiting.gang,
            assign,
            self._waiting.tree,
            self._movables.as_candidates({one.node for one in pods}, self._planned.gone),
            self._planned.holdings_on,
            self._waiting.within,
        )
        return () if isinstance(found, NoVictims) else tuple(self._movables.pods[key] for key in found.pods)


def _moves(
    moved: Sequence[Movable], starts: tuple[Reservation, ...], places: tuple[Reservation, ...], at_least: int
) -> Moves:
    nodes = {one.key: one.node for one in moved}
    return Moves(starts, tuple((nodes[place.pod], place) for place in places), at_least)
