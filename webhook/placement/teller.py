"""Why pods wait, told to people: in the pod's own annotation and in an Event, when it changes and not more often.

- A pod that was just created says it itself already: an Event is enough.
- Later texts are written when the kind of reasons changes, the newest only, at a pace that leaves the API server to the
  placements.
"""

import asyncio
from typing import Any, NoReturn

from webhook.admission.placing import telling
from webhook.cluster.events import EventRecorder, PodEvent
from webhook.cluster.pace import Pace
from webhook.cluster.writes import PodWrites
from webhook.model.names import PLACEMENT
from webhook.placement.gated import GatedPod
from webhook.placement.placed import NoPlace, Place

# A hundred pods are told in ten seconds; a thousand that wait for the same in a minute and a half, which nobody reads.
_RATE, _BURST = 10.0, 50


class Teller:
    """Tells of gated pods."""

    def __init__(self, writes: PodWrites, events: EventRecorder) -> None:
        self._writes = writes
        self._events = events
        self._pace = Pace(_RATE, _BURST)
        self._known: dict[str, tuple[str, frozenset[Any]]] = {}
        self._to_write: dict[str, tuple[GatedPod, str]] = {}
        self._arrived = asyncio.Event()

    def news(self, gated: GatedPod, kind: frozenset[Any]) -> bool:
        """Whether this kind of reasons has not been told of the pod."""
        return self._known.get(gated.key) != (gated.pod.uid, kind)

    def waits(self, gated: GatedPod, why: NoPlace) -> None:
        """The pod has no place."""
        known = self._known.get(gated.key)
        is_new = known is None or known[0] != gated.pod.uid
        self._known[gated.key] = gated.pod.uid, why.kind
        self._events.tell(PodEvent(gated.key, gated.pod.uid, "WaitingForPlacement", why.text, "Place"))
        if is_new and "none of" in gated.pod.annotations.get(PLACEMENT, ""):
            return
        self._to_write[gated.key] = gated, why.text
        self._arrived.set()

    def placed(self, gated: GatedPod, place: Place) -> None:
        """It has one."""
        self.forget(gated.key)
        self._events.tell(PodEvent(gated.key, gated.pod.uid, "Placed", place.text, "Place"))

    def released(self, gated: GatedPod, seconds: float) -> None:
        """It is let go without one."""
        self.forget(gated.key)
        note = f"released without a place after {seconds:g} s"
        self._events.tell(PodEvent(gated.key, gated.pod.uid, "Released", note, "Release"))

    def warns(self, key: str, uid: str, reason: str, note: str) -> None:
        """Something is not as it should be."""
        self._events.tell(PodEvent(key, uid, reason, note, "Place", "Warning"))

    def forget(self, key: str) -> None:
        """The pod waits no more."""
        self._known.pop(key, None)
        self._to_write.pop(key, None)

    def keep(self, keys: set[str]) -> None:
        """Only these still wait."""
        for key in self._known.keys() - keys:
            self.forget(key)

    async def run(self) -> NoReturn:
        """Write the texts, for ever. What is stale by then is told again by the next round."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._to_write:
                await self._pace.turn()
                if self._to_write:
                    key = next(iter(self._to_write))
                    gated, text = self._to_write.pop(key)
                    if patch := telling(gated.raw, text):
                        await self._writes.patch(key, patch)
