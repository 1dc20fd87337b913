"""Why pods wait, told to people: in the pod's own annotation and in an Event, when it changes and not more often.

And that they wait no more, by an Event and in figures.

- Told is what still holds after a moment: a group whose members come one by one has one thing to tell, not many.
- A pod that was just created says itself why it waits: an Event is enough. A group's member gets the group's name with
  the reason, as KAI-Scheduler's pods have it while they wait; what it asks is read from its owners until it is placed.
- Later texts are written when the kind of reasons changes, the newest only, at a pace that leaves the API server to the
  placements.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NoReturn

from webhook.admission.placing import telling
from webhook.cluster.events import EventRecorder, PodEvent
from webhook.cluster.pace import Pace
from webhook.cluster.writes import PodWrites
from webhook.model.names import PLACEMENT, POD_GROUP_NAME
from webhook.placement.figures import Figures, LetGo
from webhook.placement.gated import GatedPod, seconds_waited
from webhook.placement.placed import NoPlace, Place

# A hundred pods are told in ten seconds; a thousand that wait for the same in a minute and a half, which nobody reads.
_RATE, _BURST = 10.0, 50
# Time for what comes together to be there: a controller creates the pods of a group of 500 in ten seconds or so, but
# waits less between any two.
_SETTLE_SECONDS: Final = 1.0


class Teller:
    """Tells of gated pods; `gated` gives those there are, by namespace/name."""

    def __init__(
        self,
        writes: PodWrites,
        events: EventRecorder,
        gated: Callable[[], Mapping[str, Mapping[str, Any]]],
        figures: Figures,
    ) -> None:
        self.figures = figures
        """Where what happens is counted."""
        self._writes = writes
        self._events = events
        self._gated = gated
        self._pace = Pace(_RATE, _BURST)
        self._known: dict[str, tuple[str, frozenset[Hashable]]] = {}
        self._to_tell: dict[str, tuple[GatedPod, NoPlace, bool]] = {}
        self._arrived = asyncio.Event()

    def news(self, gated: GatedPod, kind: frozenset[Hashable]) -> bool:
        """Whether this kind of reasons has not been told of the pod."""
        return self._known.get(gated.key) != (gated.pod.uid, kind)

    def waits(self, gated: GatedPod, why: NoPlace) -> None:
        """The pod has no place."""
        known = self._known.get(gated.key)
        is_new = known is None or known[0] != gated.pod.uid
        says_it = is_new and why.of_one and "none of" in gated.pod.annotations.get(PLACEMENT, "")
        self._known[gated.key] = gated.pod.uid, why.kind
        self._to_tell[gated.key] = gated, why, says_it
        self._arrived.set()

    def placed(self, gated: GatedPod, place: Place) -> None:
        """It has one."""
        self._forget(gated.key)
        how, reason = (LetGo.PLACED, "Placed") if place.nodes is None else (LetGo.LEFT_TO_SCHEDULER, "LeftToScheduler")
        self.figures.let_go(how, seconds_waited(gated.raw))
        self._events.tell(PodEvent(gated.key, gated.pod.uid, reason, place.text, "Place"))

    def released(self, key: str, raw: Mapping[str, Any], note: str) -> None:
        """It is let go without one."""
        self._forget(key)
        self.figures.let_go(LetGo.RELEASED, seconds_waited(raw))
        self._events.tell(PodEvent(key, raw["metadata"].get("uid", ""), "Released", note, "Release"))

    def keep(self, keys: set[str]) -> None:
        """Only these still wait."""
        for key in self._known.keys() - keys:
            self._forget(key)

    async def run(self) -> NoReturn:
        """Tell, for ever."""
        while True:
            await self._arrived.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._arrived.clear()
            while self._to_tell:
                await self._pace.turn()
                if self._to_tell:
                    await self._tell(*self._to_tell.pop(next(iter(self._to_tell))))

    async def _tell(self, gated: GatedPod, why: NoPlace, says_it: bool) -> None:
        raw = self._gated().get(gated.key)
        if raw is None:
            return
        uid = raw["metadata"].get("uid", "")
        self._events.tell(PodEvent(gated.key, uid, "WaitingForPlacement", why.text, "Place"))
        if not says_it and (patch := telling(raw, why.text, gated.taken.get(POD_GROUP_NAME))):
            # A pod that has changed since is left as it is: the Event says it as well.
            await self._writes.patch(gated.key, patch)

    def _forget(self, key: str) -> None:
        self._known.pop(key, None)
        self._to_tell.pop(key, None)
