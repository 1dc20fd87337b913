"""The fewest pods of one node to move so that a single pod fits there, and each of them fits elsewhere.

1. If the pod fits without, nothing moves.
2. Only nodes count on which it would fit without all their movable pods. By their sums, so many pods must leave each;
   the `MOST_NODES` nodes where the fewest must leave are tried.
3. All sets of one pod are tried on these nodes, then of two, then of three, unless these are more than `MOST_SETS`.
   Equal pods of a workload count once. One decision judges one set on every node.
4. Sets that let it fit are tried by cost: the place is taken by the waiting pod, then each that leaves needs another
   place (see `Relocation`). At most `MOST_RELOCATIONS` sets of a size.
5. Beyond three pods, greedily: all movable pods of a node leave, then each stays after all if the pod still fits, the
   largest first.

Only pods of the node where the waiting pod starts move: a pod never moves to make room for another one that moves.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice
from typing import Final

from webhook.engine.arrays import Bools
from webhook.engine.decide import decide
from webhook.engine.moves.movable import Movable, Movables, Moves, NoMoves, Placeable, cheapness, size_of
from webhook.engine.moves.planned_cluster import PlannedCluster, Relocation
from webhook.engine.preemption.single_pod import node_bound
from webhook.model.options import Options
from webhook.model.resources import PODS

LARGEST_EXACT: Final = 3
# As many as preemption tries.
MOST_NODES: Final = 512
# A node with 20 movable pods has 1,350 sets of up to three: enough for some dozens of such nodes.
MOST_SETS: Final = 50_000
# Each takes some decisions of about 1 ms at 5,000 nodes.
MOST_RELOCATIONS: Final = 256

_Set = tuple[str, tuple[Movable, ...]]
"""A node, and pods that leave it."""


def moves_for_pod(planned: PlannedCluster, waiting: Placeable, movables: Movables, options: Options) -> Moves | NoMoves:
    """The moves; they are not made yet."""
    return _Search(planned, waiting, movables, options).run()


class _Search:
    def __init__(self, planned: PlannedCluster, waiting: Placeable, movables: Movables, options: Options) -> None:
        self._planned = planned
        self._waiting = waiting
        self._movables = movables
        self._options = options
        self._is_certain = True

    def run(self) -> Moves | NoMoves:
        """Steps 1 to 5."""
        if places := self._planned.without().places(self._waiting, 1, self._options):
            return Moves((places[0],), (), 0)
        nodes = self._nodes()
        tried = 0
        for size in range(1, LARGEST_EXACT + 1):
            by_node = [(name, sets) for name, least in nodes if least <= size and (sets := self._sets(name, size))]
            tried += sum(len(sets) for _, sets in by_node)
            if tried > MOST_SETS:
                return self._greedily(nodes, size)
            at_least = size if self._is_certain else 1
            if found := self._cheapest(self._fitting(by_node), at_least):
                return found
        return self._greedily(nodes, LARGEST_EXACT + 1)

    def _nodes(self) -> list[tuple[str, int]]:
        """Step 2: the nodes, and how many pods must leave each at least."""
        everything = chain.from_iterable(self._movables.by_node.values())
        fits = self._fits_without(list(everything))
        now = self._planned.without().snapshot
        arrays = now.node_arrays
        wanted = {**self._waiting.pod.requests, PODS: 1}
        rows = {name: arrays.resources.find(name) for name in wanted if name in arrays.resources}
        bounds = []
        for name, pods in self._movables.by_node.items():
            n = arrays.index.get(name)
            if n is None or not fits[n]:
                continue
            missing = {resource: wanted[resource] - int(now.node_free(row)[n]) for resource, row in rows.items()}
            bound = node_bound(missing, [one.candidate for one in pods], name, n)
            if bound is not None:
                bounds.append((bound.pods, name))
        bounds.sort()
        self._is_certain = len(bounds) <= MOST_NODES
        return [(name, least) for least, name in bounds[:MOST_NODES]]

    def _sets(self, name: str, size: int) -> list[tuple[Movable, ...]]:
        """The sets of this size on a node that budgets allow."""
        pods = few_alike(self._movables.by_node[name], size)
        sets = islice(combinations(pods, size), MOST_SETS + 1)
        return [moved for moved in sets if self._movables.respects_budgets(moved)]

    def _fitting(self, by_node: Sequence[tuple[str, list[tuple[Movable, ...]]]]) -> list[_Set]:
        """Step 3."""
        found: list[_Set] = []
        for turn in range(max((len(sets) for _, sets in by_node), default=0)):
            found += self._those_that_fit([(name, sets[turn]) for name, sets in by_node if turn < len(sets)])
        return found

    def _those_that_fit(self, sets: Sequence[_Set]) -> list[_Set]:
        """One decision for sets of different nodes."""
        fits = self._fits_without([one for _, moved in sets for one in moved])
        index = self._planned.original.node_arrays.index
        return [each for each in sets if fits[index[each[0]]]]

    def _fits_without(self, moved: Sequence[Movable]) -> Bools:
        room = self._planned.without(moved)
        fits: Bools = decide(room.snapshot, self._waiting.pod, self._waiting.intent, self._options).fits
        return fits

    def _cheapest(self, sets: Sequence[_Set], at_least: int) -> Moves | None:
        """Step 4."""
        order = sorted(sets, key=lambda each: (cheapness(each[1]), each[0]))
        if len(order) > MOST_RELOCATIONS:
            self._is_certain = False
        for name, moved in order[:MOST_RELOCATIONS]:
            room = self._planned.without(moved)
            start = room.on_node(self._waiting, name, self._options)
            if start is None:
                continue
            relocation = Relocation(self._options)
            places = relocation.run(room.after(start), moved)
            if places is not None:
                return Moves((start,), tuple((name, place) for place in places), at_least)
            self._is_certain &= relocation.is_certain
        return None

    def _greedily(self, nodes: Sequence[tuple[str, int]], size: int) -> Moves | NoMoves:
        """Step 5. size: smaller sets were all tried."""
        at_least = size if self._is_certain else 1
        left: dict[str, tuple[Movable, ...]] = {}
        for name, _ in nodes:
            pods = tuple(self._movables.by_node[name])
            if len(pods) >= size:
                left[name] = pods
        turns = {
            name: iter(sorted(pods, key=lambda one: (size_of([one]), one.key), reverse=True))
            for name, pods in left.items()
        }
        while turns:
            tries = dict(_next_turns(turns, left))
            left.update(self._those_that_fit(list(tries.items())))
            turns = {name: order for name, order in turns.items() if name in tries}
        sets = [(name, moved) for name, moved in left.items() if self._movables.respects_budgets(moved)]
        found = self._cheapest(self._those_that_fit(sets), at_least) if sets else None
        return found or NoMoves(self._is_certain and not left)


def _next_turns(turns: dict[str, Iterator[Movable]], left: dict[str, tuple[Movable, ...]]) -> Iterator[_Set]:
    """What leaves each node if the next pod stays."""
    for name, order in turns.items():
        stays = next(order, None)
        if stays is not None:
            yield name, tuple(one for one in left[name] if one is not stays)


def few_alike(pods: Sequence[Movable], size: int) -> list[Movable]:
    """Of equal pods only as many as a set of this size can have."""
    counts: dict[object, int] = {}
    found = []
    for one in pods:
        counts[one.alike] = counts.get(one.alike, 0) + 1
        if counts[one.alike] <= size:
            found.append(one)
    return found
