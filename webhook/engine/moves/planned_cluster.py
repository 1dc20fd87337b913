"""The cluster as a plan leaves it: some pods have left their nodes, others have got places.

The pods that leave must all be able to go somewhere, together, beside what starts in their place (`Relocation`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from webhook.engine.decide import decide
from webhook.engine.freeing import HoldingsOn
from webhook.engine.moves.movable import Movable, Placeable, size_of
from webhook.engine.preemption.freed_cluster import FreedCluster
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.options import Options


class Room:
    """One view of the cluster. `taken` are the places that the plan has given away in it."""

    def __init__(self, freed: Snapshot, taken: tuple[Reservation, ...]) -> None:
        """freed: without a ledger."""
        ledger = Ledger()
        for reservation in taken:
            ledger.put(reservation)
        self._freed = freed
        self._taken = taken
        self.snapshot = Snapshot(freed.node_arrays, ledger)

    def after(self, *taken: Reservation) -> "Room":
        """The same with more places given away."""
        return Room(self._freed, (*self._taken, *taken))

    def on_node(self, one: Placeable, node: str, options: Options) -> Reservation | None:
        """The place of a pod on this node; None if it does not fit there."""
        n = self.snapshot.node_arrays.index[node]
        others = np.ones(self.snapshot.node_arrays.n, dtype=np.bool_)
        others[n] = False
        decision = decide(self.snapshot.closed(others), one.pod, one.intent, options)
        if not decision.fits[n]:
            return None
        return _reservation(one, node, dict(decision.allocation(n)))

    def places(self, one: Placeable, most: int, options: Options) -> list[Reservation]:
        """The best places of a pod, at most so many."""
        decision = decide(self.snapshot, one.pod, one.intent, options)
        index = self.snapshot.node_arrays.index
        return [
            _reservation(one, best.node, dict(decision.allocation(index[best.node]))) for best in decision.best(most)
        ]


class PlannedCluster:
    """The cluster with the earlier moves of a plan made."""

    def __init__(
        self,
        snapshot: Snapshot,
        names: Iterable[str],
        holdings_on: HoldingsOn,
        ending: Mapping[str, Mapping[str, Mapping[str, int]]],
    ) -> None:
        """names: the resources of all pods that wait or may move. ending: pods that are being deleted, by node."""
        self.original = snapshot
        self.holdings_on = holdings_on
        self._freed = FreedCluster(snapshot, names, holdings_on)
        self.gone = {node: dict(pods) for node, pods in ending.items()}
        """The requests of the pods that have left, by node and by namespace/name."""
        self._taken: tuple[Reservation, ...] = ()

    def without(self, moved: Iterable[Movable] = ()) -> Room:
        """The cluster without these pods, too."""
        nodes: dict[str, list[str]] = {node: list(keys) for node, keys in self.gone.items()}
        for one in moved:
            nodes.setdefault(one.node, []).append(one.key)
        return Room(self._freed.without(nodes), self._taken)

    def room_in(self, freed: Snapshot) -> Room:
        """The places that the plan has given away, taken in a view of its own."""
        return Room(freed, self._taken)

    def apply(self, moved: Iterable[Movable], taken: Iterable[Reservation]) -> None:
        """Make these moves, and give these places away."""
        for one in moved:
            self.gone.setdefault(one.node, {})[one.key] = one.candidate.requests
        self._taken = (*self._taken, *taken)


def _reservation(one: Placeable, node: str, numa: Mapping[int, Mapping[str, int]]) -> Reservation:
    # A pod that moves may get a place on its own node: its old place is held under its name.
    return Reservation.of(one.key, node, numa, one.pod.requests, policy=one.intent.policy)


# Three pods with four nodes each take at most 1 + 4 + 16 decisions; a larger set ends here.
MOST_TRIALS: Final = 64
_NODES: Final = 4


class Relocation:
    """The search for where the pods of one set could all go, together.

    The largest pod comes first. Each tries its best nodes in turn; if a later pod finds none, the earlier ones try
    their next. The trials are bounded: `MOST_TRIALS` decisions for one set of pods.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._trials = 0
        self.is_certain = True
        """Whether "no places" means that there are none on any nodes."""

    def run(self, room: Room, moved: Sequence[Movable]) -> tuple[Reservation, ...] | None:
        """A place for each, by name; None if none was found."""
        order = sorted(moved, key=lambda one: (size_of([one]), one.key), reverse=True)
        found = self._from(room, order)
        return None if found is None else tuple(sorted(found, key=lambda place: place.pod))

    def _from(self, room: Room, left: Sequence[Movable]) -> list[Reservation] | None:
        if not left:
            return []
        if self._trials >= MOST_TRIALS:
            self.is_certain = False
            return None
        self._trials += 1
        places = room.places(left[0].pod, _NODES + 1, self._options)
        # Another place of this pod matters only for those after it.
        if len(left) > 1 and len(places) > _NODES:
            self.is_certain = False
        for place in places[:_NODES]:
            rest = self._from(room.after(place), left[1:])
            if rest is not None:
                return [place, *rest]
        return None
