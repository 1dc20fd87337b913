"""What happens to a pod that gets no assignment in a cycle: it is ungated, or reports why it waits.

1. No existing node could take it even if it were empty: it is ungated and left to the scheduler.
2. It would hold up the ungated pods of its group: it is ungated within the group's domain.
3. It has waited longer than configured: it is ungated.
4. Else it reports the reason, if that is new. The planner has the text.

After an internal error, the pod or gang also gets a delay before it is retried (see `retry_delays`).
Source: kubernetes pkg/scheduler/schedule_one.go (handleSchedulingFailure).
"""

import json
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from time import time

import structlog

from webhook.controllers.placement.pending_pods import PendingPods
from webhook.controllers.status_reporter import StatusReporter
from webhook.engine.decide import Decision, decide
from webhook.formats.patches.affinity_patch import Constraint, all_of, kept_by_a_merge, none_of
from webhook.formats.patches.json_patch import Operation
from webhook.internal_errors import INTERNAL, Where, contained, internal_error
from webhook.kube.pod_writes import PodWrites
from webhook.model.names import DOMAIN, POD_GROUP_NAME, SCHEDULING_GROUP
from webhook.model.raw import Raw
from webhook.model.wording import counted
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gang_text import spoken_path
from webhook.placing.gang.release import Release
from webhook.placing.planner import Cycle, Planner, Waits
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.controller_patches import ungate_patch
from webhook.placing.pod.gated_pods import GatedPod, seconds_waited
from webhook.placing.pod.node_names import NodeNames, keep_off_others
from webhook.placing.pod.not_aligned import not_aligned
from webhook.placing.pod.placement_text import nowhere, shortened, waiting, waiting_for_node
from webhook.placing.pod.placement_text import waiting as waits
from webhook.placing.pod.schedulability import awaits_node, look_ahead
from webhook.placing.pod.wait_reason import WaitReason
from webhook.placing.waiting_unit import Unit
from webhook.signal import Signal
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

log = structlog.get_logger(__name__)


class UnplacedUngater:
    """Ungates pods without an assignment; each call returns whether the pod is ungated.

    - A pod that no node could take even if it were empty, or that has waited long enough, is kept off the nodes that
      can never fit. A cluster autoscaler adds nodes for pods that the scheduler cannot schedule, and never sees gated
      pods. Future nodes stay open to the pod; the binding guard checks the one it gets.
    - A pod without room whose group is gated while it is: kube-scheduler tries no pod of a PodGroup while one of them
      is gated. It is kept in the domain of its group, and off the nodes that can never fit. The binding guard holds it
      off the nodes that cannot take it yet.
    - A pod that we do not manage would wait indefinitely. Its gate came with its manifest, or neither it nor its owners
      request anything.
    """

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        status_reporter: StatusReporter,
        rules: Rules,
        may_write: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._writes = writes
        self._status_reporter = status_reporter
        self._rules = rules
        self._may_write = may_write

    async def after_waiting(self, gated: GatedPod, seconds: float) -> bool:
        """Ungate a pod that has waited this long."""
        snapshot = self._cache.snapshot().nodes
        decision: Decision = decide(snapshot, gated.pod, gated.intent, self._rules.engine)
        unschedulable = look_ahead(snapshot.node_arrays, gated.pod, gated.intent, self._rules.engine)
        constraint = keep_off_others(snapshot.node_arrays, unschedulable, self._rules.max_affinity_values)
        note = f"ungated without an assignment after {seconds:g} s"
        alone = "" if kept_by_a_merge(gated.raw, constraint) == constraint else ", by its own node affinity alone"
        text = f"{note}{alone}; {nowhere(gated.pod, gated.intent, decision, unschedulable.message)}"
        patch = ungate_patch(gated.raw, constraint, text, gated.taken)
        return await self._ungate(gated.key, gated.raw, patch, note)

    async def until_a_node_is_added(self, gated: GatedPod) -> bool:
        """Ungate a pod that no node could take, unless one has been added meanwhile."""
        snapshot = self._cache.snapshot().nodes
        decision = decide(snapshot, gated.pod, gated.intent, self._rules.engine)
        if decision.fit_count or not awaits_node(decision):
            return False
        unschedulable = look_ahead(snapshot.node_arrays, gated.pod, gated.intent, self._rules.engine)
        constraint = keep_off_others(snapshot.node_arrays, unschedulable, self._rules.max_affinity_values)
        unaligned = not_aligned(snapshot, gated.pod, gated.intent, self._rules.engine)
        clause = unaligned.clause if unaligned else ""
        text = waiting_for_node(nowhere(gated.pod, gated.intent, decision, unschedulable.message, clause))
        patch = ungate_patch(gated.raw, constraint, text, gated.taken)
        note = f"left to the scheduler until a node is added: {unschedulable.message}"
        return await self._ungate(gated.key, gated.raw, patch, note)

    async def with_its_group(self, gated: GatedPod, release: Release, why: str) -> bool:
        """Ungate a member of a group that has begun."""
        arrays = self._cache.snapshot().nodes.node_arrays
        unschedulable = look_ahead(arrays, gated.pod, gated.intent, self._rules.engine)
        constraint = keep_off_others(arrays, unschedulable, self._rules.max_affinity_values)
        nodes, taken = NodeNames(arrays), sorted(release.kept_off & arrays.index.keys())
        constraint = all_of(constraint, *none_of([nodes.named(name) for name in taken]))
        where = f" within {spoken_path(tuple(release.domain.items()))}" if release.domain else ""
        note = f"left to the scheduler{where}, which tries no pod of a PodGroup while one of them is gated"
        others = f", and off {counted(len(taken), 'node')} of smaller pods of its gang" if taken else ""
        text = shortened(f"{note}{others}; {why.removeprefix(waiting(''))}")
        outputs = {DOMAIN: json.dumps(dict(release.domain))} if release.domain else {}
        patch = ungate_patch(gated.raw, constraint, text, {**gated.taken, **outputs}, domain=release.domain)
        return await self._ungate(gated.key, gated.raw, patch, note)

    async def unasked(self, key: str, raw: Raw, why: str) -> bool:
        """Ungate a pod that we do not manage; why: the reason to report."""
        note = f"ungated: {why}"
        return await self._ungate(key, raw, ungate_patch(raw, Constraint(), note, without=[SCHEDULING_GROUP]), note)

    async def _ungate(self, key: str, raw: Raw, patch: Sequence[Operation], note: str) -> bool:
        if not self._may_write() or not (await self._writes.patch(key, patch)).is_written:
            return False
        log.info("pod.ungated", pod=key, why=note)
        self._status_reporter.ungated(key, raw, note)
        return True


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

    def unreadable(self, key: str, raw: Raw, why: str) -> None:
        """Handle a pod that cannot be parsed."""
        if self._has_waited(raw):
            self.unmanaged(key, raw, why)
            return
        found = NoAssignment(frozenset({"unreadable", why}), waits(why), WaitReason.UNREADABLE)
        if self._status_reporter.news(raw, found.kind):
            self._status_reporter.waits(raw, found)

    def unmanaged(self, key: str, raw: Raw, why: str) -> None:
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

    def _has_waited(self, raw: Raw) -> bool:
        return 0 < self._ungate_after <= seconds_waited(raw, time())
