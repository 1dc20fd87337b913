"""Writes allocations for pods that were bound without one, because no replica answered the webhook call.

Every second the leader checks the bound pods that their nodes' NRTs have not reported:
1. If the kubelet's allocation is known, and no other pod's allocation claims the same, the allocation is written. Only
   what is missing is added, based on a fresh read of the pod.
2. For any other pod, an Event says why it has no allocation. What it may use stays reserved.
A new leader begins once all answers of the last leader must be visible: an allocation in flight may be for the same
NUMA nodes.
"""

import asyncio
from collections.abc import Callable

import structlog

from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.controllers.sweep import Sweep
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.internal_errors import Where, contained
from webhook.kube.api_errors import ClusterError
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pod_writes import PodWrites
from webhook.model.raw import Raw
from webhook.placing.pod.controller_patches import allocation_patch
from webhook.state.cluster_cache import ClusterCache
from webhook.state.kubelet_predictions import AllocationBackfill

log = structlog.get_logger(__name__)


class AllocationBackfiller(Sweep):
    """Writes the allocations. is_leader: whether we lead, and know everything that an earlier leader assumed."""

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
        self._slots = asyncio.Semaphore(concurrency)

    async def _sweep(self, _now: float) -> None:
        backfill = tuple(one for one in self._cache.allocation_backfills() if self._cache.ours.has_pod(one.pod))
        for one in backfill:
            if one.allocation is None:
                self._events.tell(
                    PodEvent(one.pod, one.uid, "NUMANodesUnknown", one.why_unassigned, "Backfill", "Warning")
                )
        await asyncio.gather(*(self._write(one, one.allocation) for one in backfill if one.allocation is not None))

    async def _write(self, backfill: AllocationBackfill, allocation: NUMAAllocation) -> None:
        async with self._slots:
            with contained(Where.WRITE, pod=backfill.pod):
                await self._write_one(backfill, allocation)

    async def _write_one(self, backfill: AllocationBackfill, allocation: NUMAAllocation) -> None:
        try:
            raw = await self._writes.read(backfill.pod)
        except ClusterError as error:
            log.warning("hint.retry", pod=backfill.pod, error=str(error))
            return
        patch = () if raw is None or not _is_the_same(raw, backfill, allocation) else allocation_patch(raw, allocation)
        if not patch or not self._is_leader():
            return
        write = await self._writes.patch(backfill.pod, patch)
        if write.is_written:
            self._metrics.allocation_backfilled()
            log.info(
                "pod.hint_backfilled",
                pod=backfill.pod,
                node=allocation.node,
                numa=[zone for zone, _ in allocation.numa_nodes],
            )
        else:
            log.warning("hint.retry", pod=backfill.pod, error=write.error)


def _is_the_same(raw: Raw, backfill: AllocationBackfill, allocation: NUMAAllocation) -> bool:
    """Whether the pod that was read is the one that the allocation is for."""
    return (raw["metadata"].get("uid"), raw["spec"].get("nodeName")) == (backfill.uid, allocation.node)
