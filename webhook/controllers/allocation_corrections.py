"""Corrects or removes allocations of bound pods that are wrong or no longer certain, because node agents obey them.

The kubelet's choice is replayed at binding. If a later event may have changed it, or the node's NodeResourceTopology
shows something else, the leader writes what is known by then, based on a fresh read of the pod:
1. The NUMA nodes of the pod, as soon as they are certain.
2. Until then, no allocation: an agent that reads no allocation does no harm.
A pod whose allocation is not ours is not changed. If a pod stays without an allocation, an Event says why (see
`allocation_backfill`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from webhook.controllers.metric_recorder import ControllerMetrics, Correction
from webhook.controllers.placement.writes_in_flight import WritesInFlight
from webhook.controllers.sweep import Sweep
from webhook.kube.api_errors import ClusterError
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome
from webhook.model.raw import Raw
from webhook.placing.pod.binding_pod import assigned_node
from webhook.placing.pod.controller_patches import correcting
from webhook.placing.pod.placement_text import where
from webhook.state.assumed.known_placements import AllocationChange
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# Combines a burst of pod ends and NRT scans into one sweep. Shorter than a runtime takes to create a container.
_COALESCE_SECONDS: Final = 0.01


class AllocationCorrections(Sweep):
    """Writes the corrections. is_leader: whether we lead, and know everything that an earlier leader assumed."""

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        events: EventRecorder,
        is_leader: Callable[[], bool],
        metrics: ControllerMetrics,
        concurrency: int,
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._events = events
        self._metrics = metrics
        self._writing = WritesInFlight(concurrency, _later, _later)
        self._wake = asyncio.Event()
        cache.allocations_changed.subscribe(self._wake.set)

    async def _sweep(self, _now: float) -> None:
        for change in self._cache.allocation_changes():
            if self._cache.ours.has_pod(change.pod) and change.pod not in self._writing and not self._writing.full:
                self._writing.start(change.pod, change.uid, partial(self._write, change))

    def _end(self) -> None:
        self._writing.cancel()

    async def _rest(self) -> None:
        """Wait for the next change of allocations, and at most for the period."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.period):
                await self._wake.wait()
        await asyncio.sleep(_COALESCE_SECONDS)
        self._wake.clear()

    async def settle(self) -> None:
        """Wait for the writes in flight."""
        await self._writing.settle()

    async def _write(self, change: AllocationChange) -> bool:
        try:
            raw = await self._writes.read(change.pod)
        except ClusterError as error:
            log.warning("hint.retry", pod=change.pod, error=str(error))
            return False
        if raw is None or not _is_the_same(raw, change):
            return False  # the informer will report the change
        if self._cache.allocation_change(change.pod) != change:
            return False  # something else is known by now: the next sweep writes that
        patch = correcting(raw, change.node, change.allocation)
        if not patch:
            self._cache.allocation_written(change)
            return True
        if not self._is_leader():
            return False
        write = await self._writes.patch(change.pod, patch)
        if write.is_written:
            self._cache.allocation_written(change)
            self._tell(raw, change)
        elif write.outcome is not Outcome.GONE:
            log.warning("hint.retry", pod=change.pod, error=write.error)
        return write.is_written

    def _tell(self, raw: Raw, change: AllocationChange) -> None:
        before, after = (
            _numa_ids(raw),
            None if change.allocation is None else [numa_id for numa_id, _ in change.allocation],
        )
        how = Correction.REMOVED if after is None else Correction.CHANGED if before else Correction.WRITTEN
        self._metrics.corrected(how)
        log.info("pod.hint_corrected", pod=change.pod, node=change.node, how=how, before=before, numa=after)
        if how is Correction.CHANGED:
            note = f"{_on(change.node, after)}, not {_on(change.node, before)} as allocated; that is corrected"
            self._events.tell(PodEvent(change.pod, change.uid, "HintCorrected", note, "Backfill"))


def _numa_ids(raw: Raw) -> list[int]:
    allocation = assigned_node(raw)
    return [] if allocation is None else [numa_id for numa_id, _ in allocation.numa_nodes]


def _on(node: str, numa_ids: Sequence[int] | None) -> str:
    return f"{node}{where(numa_ids)}"


def _later(*_: object) -> None:
    """Do nothing: the next sweep retries a failed write."""


def _is_the_same(raw: Raw, change: AllocationChange) -> bool:
    """Whether the pod that was read is the one that the allocation is for, and still runs."""
    is_it = (raw["metadata"].get("uid"), raw["spec"].get("nodeName")) == (change.uid, change.node)
    return is_it and raw.get("status", {}).get("phase") not in {"Succeeded", "Failed"}
