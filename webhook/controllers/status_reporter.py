"""Reports why pods wait, in the pod's own annotation and in an Event, only when it changes.

It also reports the end of the wait, in an Event and in metrics.

- A reason is reported only if it still holds after a moment: a gang whose members come one by one causes one report,
  not many.
- The annotation of a new pod already says why it waits: an Event is enough. But a policy that the pod takes from its
  owners was not known then, so its annotation is written again.
- A gang member also gets the gang's name, as KAI-Scheduler's pods have it while they wait. Its request is read from its
  owners until a node is assigned.
- A gang whose members have an owner gets one Event there instead (see `gang_events`).
- Later texts are written when the kinds of reasons change, only the newest, and in turns by namespace. The rate is
  limited, so that the API server has capacity left for assignments.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from time import time
from typing import Final, NoReturn

from webhook.controllers.metric_recorder import ControllerMetrics, Ungated
from webhook.internal_errors import Where, contained
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pacing import FairQueue, RateLimiter
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome
from webhook.model.names import PLACEMENT
from webhook.model.raw import Raw
from webhook.placing.pod.assignment import Assignment, NoAssignment
from webhook.placing.pod.controller_patches import status_patch
from webhook.placing.pod.gated_pods import GatedPod, seconds_waited
from webhook.placing.pod.wait_reason import WaitReason

# A hundred pods are reported in ten seconds. A thousand that wait for the same take a minute and a half; users don't
# read that many.
_RATE, _BURST = 10.0, 50
# Time for pods that are created together to appear. A controller creates the pods of a gang of 500 in ten seconds or
# so, but any two follow each other faster than this.
_SETTLE_SECONDS: Final = 1.0
# Of a text whose pod has changed meanwhile. The Event says the same.
_MOST_TRIES: Final = 3


class StatusReporter:
    """Reports the status of gated pods; `gated` returns them by namespace/name."""

    def __init__(
        self,
        writes: PodWrites,
        events: EventRecorder,
        gated: Callable[[], Mapping[str, Raw]],
        metrics: ControllerMetrics,
    ) -> None:
        self.metrics = metrics
        """Receives the metrics of placement."""
        self._writes = writes
        self._events = events
        self._gated = gated
        self._pace = RateLimiter(_RATE, _BURST)
        self._known: dict[str, tuple[str, frozenset[Hashable]]] = {}  # namespace/name -> (uid, kinds of reasons)
        self._reasons: dict[str, str] = {}
        self._to_report: FairQueue[str, _Report] = FairQueue()
        self._stale: dict[str, _Report] = {}
        self._arrived = asyncio.Event()

    def news(self, raw: Raw, kind: frozenset[Hashable]) -> bool:
        """Whether these kinds of reasons have not been reported of the pod yet."""
        return self._known.get(_key(raw)) != (_uid(raw), kind)

    def waits(
        self,
        raw: Raw,
        why: NoAssignment,
        group: str | None = None,
        *,
        takes_policy: bool = False,
        event: bool = True,
    ) -> None:
        """Report that the pod has no assignment.

        group: the name of its gang, if it takes that from its owners. takes_policy: whether it takes its NUMA policy
        from them. event: whether to write an Event; False: an Event on its owner says the same.
        """
        key, uid = _key(raw), _uid(raw)
        known, unsent = self._known.get(key), self._to_report.get(_namespace(key), key)
        is_first = known is None or known[0] != uid or (unsent is not None and unsent.is_first)
        self._known[key] = uid, why.kind
        self._reasons[key] = why.reason
        self._to_report.put(_namespace(key), key, _Report(uid, why, group, is_first, takes_policy, event))
        self._arrived.set()

    def assigned(self, gated: GatedPod, assignment: Assignment) -> None:
        """Report the end of the wait: a node is assigned, or the pod is delegated to the scheduler."""
        self._forget(gated.key)
        how, reason = (
            (Ungated.ASSIGNED, "Assigned") if assignment.nodes is None else (Ungated.DELEGATED, "DelegatedToScheduler")
        )
        self.metrics.ungated(how, seconds_waited(gated.raw, time()))
        if assignment.not_aligned and gated.takes_policy:  # else it was reported at creation
            self.metrics.not_aligned()
        if not gated.reports_on_owner:
            self._events.tell(PodEvent(gated.key, gated.pod.uid, reason, assignment.text, "Assign"))

    def ungated(self, key: str, raw: Raw, note: str) -> None:
        """Report that the pod is ungated without an assignment; raw: the pod as it was, note: why."""
        self._forget(key)
        self.metrics.ungated(Ungated.TIMEOUT, seconds_waited(raw, time()))
        self._events.tell(PodEvent(key, raw["metadata"].get("uid", ""), "Ungated", note, "Ungate"))

    def reason_of(self, key: str) -> str:
        """The reason that was last reported of the pod namespace/name."""
        return self._reasons.get(key, WaitReason.PENDING)

    def reported_reason(self, key: str, uid: str) -> str | None:
        """The reason of this incarnation of the pod namespace/name, if its report is written; else None."""
        if self._to_report.get(_namespace(key), key) or self._known.get(key, ("",))[0] != uid:
            return None
        return self._reasons.get(key)

    def keep(self, keys: set[str]) -> None:
        """Forget all pods but these, which still wait."""
        for key in self._known.keys() - keys:
            self._forget(key)

    async def run(self) -> NoReturn:
        """Report until cancelled."""
        while True:
            await self._arrived.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._arrived.clear()
            while self._to_report:
                await self._pace.turn()
                if self._to_report:
                    key, report = self._to_report.pop()
                    with contained(Where.POD, pod=key):
                        await self._send(key, report)
            self._send_again()

    def _send_again(self) -> None:
        """Queue the reports whose pod had changed, unless there is a newer one, or the pod no longer waits."""
        for key, report in self._stale.items():
            if key in self._known and self._to_report.get(_namespace(key), key) is None:
                again = replace(report, event=False, is_first=False, tries=report.tries + 1)
                self._to_report.put(_namespace(key), key, again)
                self._arrived.set()
        self._stale.clear()

    async def _send(self, key: str, report: "_Report") -> None:
        raw = self._gated().get(key)
        if raw is None or _uid(raw) != report.uid:
            return  # it does not wait any more, or is another pod of that name
        why = report.why
        if report.event:
            self._events.tell(PodEvent(key, _uid(raw), "WaitingForPlacement", why.text, "Assign"))
        said = (raw["metadata"].get("annotations") or {}).get(PLACEMENT, "")
        if report.is_first and why.of_one and not report.takes_policy and "none of" in said:
            return  # the annotation from its creation says the same
        if patch := status_patch(raw, why.text, report.group):
            # A condition may be written at the same moment.
            write = await self._writes.patch(key, patch)
            if write.outcome is Outcome.STALE and report.tries < _MOST_TRIES:
                self._stale[key] = report

    def _forget(self, key: str) -> None:
        self._known.pop(key, None)
        self._reasons.pop(key, None)
        self._to_report.discard(_namespace(key), key)


@dataclass(frozen=True, slots=True)
class _Report:
    """A report about one pod that is not sent yet."""

    uid: str
    why: NoAssignment
    group: str | None
    is_first: bool
    """Whether nothing has been reported of the pod yet."""
    takes_policy: bool
    """Whether its NUMA policy comes from its owners, which were not read at its creation."""
    event: bool
    tries: int = 1
    """How often it was sent, with this time."""


def _key(raw: Raw) -> str:
    return f"{raw['metadata'].get('namespace', '')}/{raw['metadata'].get('name', '')}"


def _namespace(key: str) -> str:
    return key.partition("/")[0]


def _uid(raw: Raw) -> str:
    return str(raw["metadata"].get("uid", ""))
