"""What happens to a pod that gets no assignment in a cycle: it is ungated, or reports why it waits.

1. No existing node could take it even if it were empty: it is ungated and left to the scheduler.
2. It would hold up the ungated pods of its group: it is ungated within the group's domain.
3. It has waited longer than configured: it is ungated.
4. Else it reports the reason, if that is new. The planner has the text.

After an internal error, the pod or gang also gets a delay before it is retried (see `retry_delays`).
Source: kubernetes pkg/scheduler/schedule_one.go (handleSchedulingFailure).
"""

from collections.abc import Hashable, Mapping
from functools import partial
from time import time
from typing import Any

from webhook.controllers.placement.pending_pods import PendingPods
from webhook.controllers.placement.ungate_unplaced import UnplacedUngater
from webhook.controllers.status_reporter import StatusReporter
from webhook.internal_errors import INTERNAL, Where, contained, internal_error
from webhook.model.names import POD_GROUP_NAME
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.planner import Cycle, Planner, Waits
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.gated_pods import GatedPod, seconds_waited
from webhook.placing.pod.placement_text import waiting as waits
from webhook.placing.pod.wait_reason import WaitReason
from webhook.placing.waiting_unit import Unit
from webhook.signal import Signal


class FailureHandler:
    """Handles failed attempts. ungate_after: seconds after which a pod is ungated without an assignment; 0: never."""

    def __init__(
        self,
        pending: PendingPods,
        ungater: UnplacedUngater,
        status_reporter: StatusReporter,
        gang_examined: Signal[[GatedGang, str]],
        planner: Planner,
        ungate_after: float,
    ) -> None:
        self._pending = pending
        self._ungater = ungater
        self._status_reporter = status_reporter
        self._delays = pending.delays
        self._gang_examined = gang_examined
        self._planner = planner
        self._ungate_after = ungate_after

    def unassigned(self, waiting: Waits, cycle: Cycle) -> None:
        """Handle a pod that got no node."""
        gated, result = waiting.pod, waiting.result
        if isinstance(result, NoAssignment) and result.awaits_node:
            self._pending.ungate(gated.key, gated.raw, partial(self._ungater.until_a_node_is_added, gated))
            return
        if waiting.released is not None:
            text = self._planner.why(waiting, cycle).text
            ungate = partial(self._ungater.with_its_group, gated, waiting.released, text)
            self._pending.ungate(gated.key, gated.raw, ungate)
            return
        if self._has_waited(gated.raw):
            ungate = partial(self._ungater.after_waiting, gated, self._ungate_after)
            self._pending.ungate(gated.key, gated.raw, ungate)
            return
        if not self.is_news(gated, waiting.kind):
            return
        group = gated.taken.get(POD_GROUP_NAME)
        event = not (waiting.of_gang and gated.reports_on_owner)
        why = self._planner.why(waiting, cycle)
        self._status_reporter.waits(gated.raw, why, group, takes_policy=gated.takes_policy, event=event)

    def is_news(self, gated: GatedPod, kind: frozenset[Hashable]) -> bool:
        """Whether this result, with what was done about it since, has not been reported of the pod yet."""
        return self._status_reporter.news(gated.raw, self._planner.kind(gated.key, kind))

    def unreadable(self, key: str, raw: Mapping[str, Any], why: str) -> None:
        """Handle a pod that cannot be parsed."""
        if self._has_waited(raw):
            self.unmanaged(key, raw, why)
            return
        found = NoAssignment(frozenset({"unreadable", why}), waits(why), WaitReason.UNREADABLE)
        if self._status_reporter.news(raw, found.kind):
            self._status_reporter.waits(raw, found)

    def unmanaged(self, key: str, raw: Mapping[str, Any], why: str) -> None:
        """Ungate a pod that we do not place; why: the reason to report."""
        self._pending.ungate(key, raw, partial(self._ungater.unasked, key, raw, why))

    def internal_error(self, unit: Unit, error: Exception, cycle: Cycle) -> None:
        """Handle an exception: the unit waits with the text "internal error", and is retried later."""
        if isinstance(unit, GatedGang):
            self._delays.failed(unit.membership.group)
            fault = internal_error(Where.GANG, error, gang=unit.membership.group)
        else:
            self._delays.failed(unit.pod.uid)
            fault = internal_error(Where.POD, error, pod=unit.key)
        found = NoAssignment(frozenset({INTERNAL}), waits(fault), WaitReason.INTERNAL_ERROR)
        if isinstance(unit, GatedGang):
            self._gang_examined.emit(unit, found.text)
        for one in unit.members if isinstance(unit, GatedGang) else (unit,):
            with contained(Where.POD, pod=one.key):
                self.unassigned(Waits(one, found, of_gang=isinstance(unit, GatedGang)), cycle)

    def is_delayed(self, gang: GatedGang) -> bool:
        """Whether the gang is not retried yet after an internal error."""
        return self._delays.is_put_off(gang.membership.group)

    def no_error(self, gang: GatedGang) -> None:
        """Forget past internal errors with the gang: its next delay is the shortest again."""
        self._delays.succeeded(gang.membership.group)

    def _has_waited(self, raw: Mapping[str, Any]) -> bool:
        return 0 < self._ungate_after <= seconds_waited(raw, time())
