"""Where the pods that leave could all go, together, beside what starts in their place.

The largest pod comes first. Each tries its best nodes in turn; if a later pod finds none, the earlier ones try their
next. The trials are bounded: `MOST_TRIALS` decisions for one set of pods.
"""

from collections.abc import Sequence
from typing import Final

from webhook.engine.moves.movable import Movable, size_of
from webhook.engine.moves.planned_cluster import Room
from webhook.engine.snapshot.ledger import Reservation
from webhook.model.options import Options

# Three pods with four nodes each take at most 1 + 4 + 16 decisions; a larger set ends here.
MOST_TRIALS: Final = 64
_NODES: Final = 4


class Relocation:
    """The search for one set of pods."""

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
