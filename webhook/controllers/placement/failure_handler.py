"""What happens to a pod that gets no assignment in a cycle: it is ungated, or reports why it waits.

1. No existing node could take it even if it were empty: it is ungated and left to the scheduler.
2. It has waited longer than configured: it is ungated.
3. Else it reports the reason, if that is new. The text is computed once per signature and cycle.

After an internal error, the pod or gang also gets a delay before it is retried (see `retry_delays`).
Source: kubernetes pkg/scheduler/schedule_one.go (handleSchedulingFailure).
"""

from collections.abc import Hashable, Mapping
from functools import partial
from time import time
from typing import Any

from webhook.controllers.placement.cycle import Cycle
from webhook.controllers.placement.pending_pods import PendingPods
from webhook.controllers.placement.ungate_unplaced import UnplacedUngater
from webhook.controllers.status_reporter import StatusReporter
from webhook.engine.decide import Decision
from webhook.internal_errors import INTERNAL, Where, contained, internal_error
from webhook.model.names import POD_GROUP_NAME
from webhook.placing.autoscaling.lacking_room import LackingRoom
from webhook.placing.fair_order import Unit
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.assignment import NoAssignment, why_unassigned
from webhook.placing.pod.gated_pods import GatedPod, seconds_waited
from webhook.placing.pod.placement_text import waiting as waits
from webhook.placing.pod.wait_reason import WaitReason
from webhook.placing.preemption.holds_in_vain import PAUSED
from webhook.signal import Signal
from webhook.state.rules import Rules


class FailureHandler:
    """Handles failed attempts. ungate_after: seconds after which a pod is ungated without an assignment; 0: never."""

    def __init__(
        self,
        pending: PendingPods,
        ungater: UnplacedUngater,
        status_reporter: StatusReporter,
        gang_examined: Signal[[GatedGang, str]],
        rules: Rules,
        ungate_after: float,
        lacking_room: LackingRoom,
    ) -> None:
        self._pending = pending
        self._ungater = ungater
        self._status_reporter = status_reporter
        self._delays = pending.delays
        self._gang_examined = gang_examined
        self._rules = rules
        self._ungate_after = ungate_after
        self.preemptors = lacking_room.preemptors
        """Those that may preempt."""
        self.lacking_room = lacking_room
        """Those that fit nowhere now, and what an autoscaler is asked for them."""

    def unassigned(
        self,
        gated: GatedPod,
        known: Decision | NoAssignment,
        cycle: Cycle,
        *,
        of_gang: bool = False,
        result_key: Hashable = None,
    ) -> None:
        """Handle a pod that got no node.

        known: the result for its signature, which gets its text when it is needed; of_gang: whether it is that of its
        whole gang; result_key: where the cycle keeps the result.
        """
        if isinstance(known, NoAssignment) and known.awaits_node:
            self._pending.ungate(gated.key, gated.raw, partial(self._ungater.until_a_node_is_added, gated))
            return
        if self._has_waited(gated.raw):
            ungate = partial(self._ungater.after_waiting, gated, self._ungate_after)
            self._pending.ungate(gated.key, gated.raw, ungate)
            return
        known = self.preempting(gated.key) or known
        kind = known.kind if isinstance(known, NoAssignment) else frozenset(known.excluded)
        if not self._status_reporter.news(gated.raw, self.lacking_room.kind(gated.key, kind)):
            return
        if isinstance(known, Decision):
            known = why_unassigned(known, gated, self._rules, len(cycle.reserved_nodes))
            if result_key is not None:
                cycle.unassigned[result_key] = known
        known = self.lacking_room.told(gated.key, known)
        group = gated.taken.get(POD_GROUP_NAME)
        event = not (of_gang and gated.reports_on_owner)
        self._status_reporter.waits(gated.raw, known, group, takes_policy=gated.takes_policy, event=event)

    def is_news(self, gated: GatedPod, kind: frozenset[Hashable]) -> bool:
        """Whether this result, with what was done about it since, has not been reported of the pod yet."""
        held = self.preempting(gated.key)
        return self._status_reporter.news(
            gated.raw, self.lacking_room.kind(gated.key, kind if held is None else held.kind)
        )

    def preempting(self, key: str) -> NoAssignment | None:
        """What the pod waits for while a place is held for it, or would be; None if none is."""
        holds = self.preemptors.holds
        hold = holds.of_member(key)
        if hold is None and (room := holds.beside(key)) is not None:
            text = f"pods of lower priority end on node {room.node} for another pod, and there is room for both then"
            return NoAssignment(
                frozenset({WaitReason.PREEMPTING, "beside", room.node}), waits(text), WaitReason.PREEMPTING
            )
        if hold is None:
            if not self.preemptors.is_paused(key):
                return None
            return NoAssignment(frozenset({WaitReason.PREEMPTING, "paused"}), waits(PAUSED), WaitReason.PREEMPTING)
        return NoAssignment(
            frozenset({WaitReason.PREEMPTING, hold.phase, len(hold.victims)}), waits(hold.text), WaitReason.PREEMPTING
        )

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
                self.unassigned(one, found, cycle, of_gang=isinstance(unit, GatedGang))

    def is_delayed(self, gang: GatedGang) -> bool:
        """Whether the gang is not retried yet after an internal error."""
        return self._delays.is_put_off(gang.membership.group)

    def no_error(self, gang: GatedGang) -> None:
        """Forget past internal errors with the gang: its next delay is the shortest again."""
        self._delays.succeeded(gang.membership.group)

    def _has_waited(self, raw: Mapping[str, Any]) -> bool:
        return 0 < self._ungate_after <= seconds_waited(raw, time())
