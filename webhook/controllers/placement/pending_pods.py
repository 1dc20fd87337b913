"""The pods that a cycle skips: their patch is in flight, they are assumed, or their retry is delayed.

1. A patch is written in the background, once per pod at a time. Assignments and the removal of gates without an
   assignment have separate limits: a user who creates thousands of unmanaged pods must not delay the assignments.
2. Each end of a write requests another cycle. If the pod needs a retry, it is delayed (see `retry_delays`).
3. If the API server rejects an assignment, or a write fails with an internal error, the pod reports that.
"""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Final

import structlog

from webhook.controllers.placement.assignment_writer import AssignmentWriter
from webhook.controllers.placement.writes_in_flight import WritesInFlight
from webhook.controllers.status_reporter import StatusReporter
from webhook.internal_errors import INTERNAL
from webhook.kube.write import Outcome
from webhook.model.raw import Raw
from webhook.placing.pod.assignment import Assignment, NoAssignment
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.placement_text import shortened
from webhook.placing.pod.placement_text import waiting as waits
from webhook.placing.pod.wait_reason import WaitReason
from webhook.placing.retry_delays import RetryDelays
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# A pod is under way for some 50 ms: pods that come one by one, even a hundred a second, are fewer.
_BURST_PODS: Final = 16
# A quarter of 256 writes, at 200 to 400 a second.
_FULL_SECONDS: Final = 0.3


class PendingPods:
    """The pods whose next step has begun or is delayed. concurrency: writes of assignments at a time."""

    def __init__(
        self,
        cache: ClusterCache,
        writer: AssignmentWriter,
        status_reporter: StatusReporter,
        delays: RetryDelays,
        concurrency: int,
        changed: Callable[[], None],
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._status_reporter = status_reporter
        self.delays = delays
        self._changed = changed
        self._assigning = WritesInFlight(concurrency, self._written, self._write_failed)
        self._ungating = WritesInFlight(max(1, concurrency // 4), self._written, self._write_failed)
        cache.bound_or_gone.subscribe(self._assigning.bound_or_gone)

    @property
    def being_written(self) -> AbstractSet[str]:
        """The pods (namespace/name) whose assignment is being written, or waits for its turn; a live view."""
        return self._assigning.keys

    @property
    def full(self) -> bool:
        """Whether no more assignments should be written until a write ends."""
        return self._assigning.full

    async def wait_for_room(self) -> None:
        """If it is full, wait until a quarter of it is free, for a limited time: writes may get no answer."""
        if self._assigning.full:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FULL_SECONDS):
                    await self._assigning.wait_for_room()

    @property
    def is_burst(self) -> bool:
        """Whether many pods get their nodes at once."""
        return self._assigning.under_way >= _BURST_PODS

    def has(self, key: str, uid: str) -> bool:
        """Whether to skip the pod for now."""
        return (
            key in self._assigning
            or key in self._ungating
            or self.delays.is_put_off(uid)
            or self._cache.assumed_node(key) is not None
        )

    def assign(self, gated: GatedPod, assignment: Assignment, assumed_pod: AssumedPod) -> None:
        """Write the assignment of an assumed pod in the background, with the annotations taken from its owners."""
        assignment = replace(assignment, annotations={**gated.taken, **assignment.annotations})

        async def assign() -> bool:
            write = await self._writer.write(gated, assignment, assumed_pod)
            if write.is_written:
                self._status_reporter.assigned(gated, assignment)
                log.info("pod.assigned", pod=gated.key, node=assignment.allocation.node)
            elif write.outcome is Outcome.REFUSED:
                self._rejected(gated, write.error)
            return write.is_settled

        # It would wait for the bindings of pods that the scheduler does not try before this one is ungated.
        waits_for_none = self._cache.is_gated_as_a_whole(gated.membership)
        arrival = None if waits_for_none else assignment.arrival(gated)
        self._assigning.start(gated.key, gated.pod.uid, assign, assignment.allocation.node, arrival)

    def ungate(self, key: str, raw: Raw, write: Callable[[], Awaitable[bool]]) -> None:
        """Ungate the pod without an assignment, in the background."""
        uid = raw["metadata"].get("uid", "")
        if not (self._ungating.full or key in self._ungating or key in self._assigning or self.delays.is_put_off(uid)):
            self._ungating.start(key, uid, write)

    async def settle(self) -> None:
        """Wait for the patches in flight."""
        await self._assigning.settle()
        await self._ungating.settle()

    def cancel(self) -> None:
        """Cancel the patches in flight when the process ends."""
        self._assigning.cancel()
        self._ungating.cancel()

    def _rejected(self, gated: GatedPod, error: str) -> None:
        """Report that the API server rejects the assignment: a policy of the cluster, or an object at a size limit."""
        text = shortened(waits(f"it fits, but its placement cannot be written: {error}"))
        why = NoAssignment(frozenset({Outcome.REFUSED}), text, WaitReason.WRITE_REJECTED)
        if self._status_reporter.news(gated.raw, why.kind):
            self._status_reporter.waits(gated.raw, why)

    def _written(self, uid: str, done: bool) -> None:
        """A write in flight ended; done: whether the pod needs no retry."""
        if done:
            self.delays.succeeded(uid)
        else:
            self.delays.failed(uid)
        self._changed()

    def _write_failed(self, key: str, uid: str, fault: str) -> None:
        """A write failed with an internal error."""
        self.delays.failed(uid)
        self._changed()
        raw = self._cache.gated_pods().get(key)
        if raw is not None and raw["metadata"].get("uid", "") == uid:
            self._status_reporter.waits(
                raw, NoAssignment(frozenset({INTERNAL}), waits(fault), WaitReason.INTERNAL_ERROR)
            )
