"""Why pods wait, told to people: in the pod's own annotation and in an Event, when it changes and not more often.

And that they wait no more, by an Event and in figures.

- Told is what still holds after a moment: a group whose members come one by one has one thing to tell, not many.
- A pod that was just created says itself why it waits: an Event is enough. A group's member gets the group's name with
  the reason, as KAI-Scheduler's pods have it while they wait; what it asks is read from its owners until it is placed.
- Later texts are written when the kind of reasons changes, the newest only, at a pace that leaves the API server to the
  placements, and by namespace in turn.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from webhook.admission.pod.controller_patches import status_patch as telling_patch
from webhook.controllers.metric_recorder import ControllerMetrics, Ungated
from webhook.controllers.placement.assignment import Assignment, NoAssignment
from webhook.controllers.placement.gated_pods import GatedPod, seconds_waited
from webhook.internal_errors import Where, contained
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.fair_queue import FairQueue
from webhook.kube.pod_writes import PodWrites
from webhook.kube.rate_limiter import RateLimiter
from webhook.model.names import PLACEMENT

# A hundred pods are told in ten seconds; a thousand that wait for the same in a minute and a half, which nobody reads.
_RATE, _BURST = 10.0, 50
# Time for what comes together to be there: a controller creates the pods of a group of 500 in ten seconds or so, but
# waits less between any two.
_SETTLE_SECONDS: Final = 1.0


class StatusReporter:
    """Tells of gated pods; `gated` gives those there are, by namespace/name."""

    def __init__(
        self,
        writes: PodWrites,
        events: EventRecorder,
        gated: Callable[[], Mapping[str, Mapping[str, Any]]],
        metrics: ControllerMetrics,
    ) -> None:
        self.metrics = metrics
        """Where what happens is counted."""
        self._writes = writes
        self._events = events
        self._gated = gated
        self._pace = RateLimiter(_RATE, _BURST)
        self._known: dict[str, tuple[str, frozenset[Hashable]]] = {}
        self._to_report: FairQueue[str, _Report] = FairQueue()
        self._arrived = asyncio.Event()

    def news(self, raw: Mapping[str, Any], kind: frozenset[Hashable]) -> bool:
        """Whether this kind of reasons has not been told of the pod."""
        return self._known.get(_key(raw)) != (_uid(raw), kind)

    def waits(self, raw: Mapping[str, Any], why: NoAssignment, group: str | None = None) -> None:
        """The pod has no place. group: the name of its group, where it takes that from its owners."""
        key, uid = _key(raw), _uid(raw)
        known, untold = self._known.get(key), self._to_report.get(_namespace(key), key)
        is_first = known is None or known[0] != uid or (untold is not None and untold.is_first)
        self._known[key] = uid, why.kind
        self._to_report.put(_namespace(key), key, _Report(why, group, is_first))
        self._arrived.set()

    def assigned(self, gated: GatedPod, assignment: Assignment) -> None:
        """It has one."""
        self._forget(gated.key)
        how, reason = (
            (Ungated.ASSIGNED, "Assigned") if assignment.nodes is None else (Ungated.DELEGATED, "DelegatedToScheduler")
        )
        self.metrics.ungated(how, seconds_waited(gated.raw))
        if assignment.not_aligned and gated.takes_policy:  # else its creation was counted
            self.metrics.not_aligned()
        self._events.tell(PodEvent(gated.key, gated.pod.uid, reason, assignment.text, "Assign"))

    def released(self, key: str, raw: Mapping[str, Any], note: str) -> None:
        """It is let go without one."""
        self._forget(key)
        self.metrics.ungated(Ungated.TIMEOUT, seconds_waited(raw))
        self._events.tell(PodEvent(key, raw["metadata"].get("uid", ""), "Ungated", note, "Ungate"))

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
            while self._to_report:
                await self._pace.turn()
                if self._to_report:
                    key, status_patch = self._to_report.pop()
                    with contained(Where.POD, pod=key):
                        await self._tell(key, status_patch)

    async def _tell(self, key: str, status_patch: "_Report") -> None:
        raw = self._gated().get(key)
        if raw is None:
            return
        why = status_patch.why
        self._events.tell(PodEvent(key, _uid(raw), "WaitingForPlacement", why.text, "Assign"))
        said = (raw["metadata"].get("annotations") or {}).get(PLACEMENT, "")
        if status_patch.is_first and why.of_one and "none of" in said:
            return  # its creation said the same
        if patch := telling_patch(raw, why.text, status_patch.group):
            # A pod that has changed since is left as it is: the Event says it as well.
            await self._writes.patch(key, patch)

    def _forget(self, key: str) -> None:
        self._known.pop(key, None)
        self._to_report.discard(_namespace(key), key)


@dataclass(frozen=True, slots=True)
class _Report:
    """What is to be reported of one pod."""

    why: NoAssignment
    group: str | None
    is_first: bool
    """Whether nothing was reported of it yet."""


def _key(raw: Mapping[str, Any]) -> str:
    return f"{raw['metadata'].get('namespace', '')}/{raw['metadata'].get('name', '')}"


def _namespace(key: str) -> str:
    return key.partition("/")[0]


def _uid(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"].get("uid", ""))
