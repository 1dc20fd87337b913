"""An attempt to assign a single pod: decide, assume, and write in the background.

1. Skip the pod if it is pending (see `pending_pods`).
2. If its signature failed in this cycle, or in an earlier one and nothing has changed since, the result is the same.
3. Decide with the current state of the cluster, with assumed pods and reserved nodes subtracted (see `assignment`).
   Nodes that are held for preemptors of the same or a higher priority are closed (see `controllers.preemption`), unless
   it certainly fits beside them (see `controllers.preemption.room_now`).
4. It fits: assume it at once, so that the next decision sees it, and write its assignment.
   Else: no other pod of its signature is tried in this cycle, because free resources never grow within one. It may
   preempt.
"""

from collections.abc import Hashable
from time import monotonic

from webhook.controllers.placement.assignment_writer import AssignmentWriter
from webhook.controllers.placement.cycle import Cycle
from webhook.controllers.placement.failure_handler import FailureHandler
from webhook.controllers.placement.pending_pods import PendingPods
from webhook.controllers.status_reporter import StatusReporter
from webhook.engine.decide import Decision
from webhook.placing.fair_order import FailedAttempts, name_of
from webhook.placing.pod.assignment import Assignment, NoAssignment, find_assignment, without
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.wait_reason import WaitReason
from webhook.placing.preemption.preemptor import Preemptor
from webhook.placing.preemption.preemptor import name_of as preemptor_name
from webhook.placing.preemption.room_now import place_beside
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules


class PodAttempts:
    """Attempts to assign single pods."""

    def __init__(
        self,
        cache: ClusterCache,
        writer: AssignmentWriter,
        pending: PendingPods,
        failed: FailedAttempts,
        failures: FailureHandler,
        status_reporter: StatusReporter,
        rules: Rules,
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._pending = pending
        self._failed = failed
        self._failures = failures
        self._status_reporter = status_reporter
        self._metrics = status_reporter.metrics
        self._rules = rules
        self._preemptors = failures.preemptors
        self._lacking_room = failures.lacking_room

    def needs_decision(self, gated: GatedPod, cycle: Cycle) -> bool:
        """Whether an attempt would cost a decision: its result is not known yet."""
        return not (
            self._result_key(gated, name_of(gated)) in cycle.unassigned
            or self._known_to_fail(gated, cycle) is not None
            or self._pending.has(gated.key, gated.pod.uid)
        )

    def attempt(self, gated: GatedPod, cycle: Cycle) -> int:
        """Assign the pod; returns 1 if it was assigned."""
        if self._pending.has(gated.key, gated.pod.uid):
            return 0
        key = self._result_key(gated, gated.request_signature)
        known = cycle.unassigned.get(key)
        if known is None:
            known = self._known_to_fail(gated, cycle)
        if known is not None:
            self._failures.unassigned(gated, known, cycle, result_key=key)
            self._note(gated, known, cycle)
            return 0
        if self._cache.gated_pods().get(gated.key) is not gated.raw:
            return 0  # its change triggers another cycle
        return self._decide(gated, cycle)

    def _decide(self, gated: GatedPod, cycle: Cycle) -> int:
        began = monotonic()
        snapshot = self._cache.snapshot().nodes
        # Not the basis at the cycle's start: reservations of this cycle may end before the next one, which would then
        # see the same version.
        closed = self._closed_to(gated)
        basis = (snapshot.version, cycle.reserved_nodes), closed
        open_nodes = without(snapshot, cycle.reserved_nodes | closed)
        found = find_assignment(open_nodes, gated, self._rules, self._cache.assigned)
        if not isinstance(found, Assignment) and closed:
            preemptor = Preemptor(gated, reserved=cycle.reserved_nodes)
            found = place_beside(preemptor, self._cache, self._preemptors, self._rules) or found
        self._metrics.decided("pod", monotonic() - began)
        if isinstance(found, Assignment):
            self._lacking_room.forget(preemptor_name(gated))
            self._preemptors.placed(gated, (found.hint.node,))
            self._pending.assign(gated, found, self._writer.assume(gated, found))
            return 1
        key = self._result_key(gated, gated.request_signature)
        cycle.unassigned[key] = found
        self._failures.unassigned(gated, found, cycle, result_key=key)
        self._note(gated, found, cycle)
        if isinstance(found, NoAssignment) and found.awaits_node:
            self._lacking_room.forget(preemptor_name(gated))
            return 0  # if it cannot be ungated now, the next cycle checks it again
        kind = found.kind if isinstance(found, NoAssignment) else frozenset(found.excluded)
        self._failed.record(gated, basis, kind)
        return 0

    def _known_to_fail(self, gated: GatedPod, cycle: Cycle) -> NoAssignment | None:
        """The pod's signature failed, nothing has changed since, and the reason was reported of this pod; else None."""
        failed = self._failed.of(gated)
        if failed is None or failed.basis != (cycle.basis_of(gated), self._closed_to(gated)):
            return None
        return None if self._failures.is_news(gated, failed.kind) else NoAssignment(failed.kind, "", WaitReason.PENDING)

    def _note(self, gated: GatedPod, found: Decision | NoAssignment, cycle: Cycle) -> None:
        """Let the pod preempt, or an autoscaler be asked, if it lacks room."""
        if isinstance(found, Decision) or found.of_one:
            self._lacking_room.unfit(Preemptor(gated, reserved=cycle.reserved_nodes))
        elif found.reason != WaitReason.PENDING:
            self._lacking_room.forget(preemptor_name(gated))
            if found.fits_on:
                self._preemptors.fits_on(gated, found.fits_on)

    def _closed_to(self, gated: GatedPod) -> frozenset[str]:
        """The nodes that are held for others."""
        return self._preemptors.closed_to(gated)

    def _result_key(self, gated: GatedPod, signature: Hashable) -> Hashable:
        """Equal for pods with the same result in one cycle."""
        closed = self._closed_to(gated)
        return (signature, closed) if closed else signature
