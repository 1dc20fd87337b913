"""Ungates waiting pods in the modes Observe and Off: nothing places them any more.

They wait because the mode was Enforce when they were created, or because a replica of an earlier mode still runs. Each
second the leader ungates every pod that our gate alone holds back, some at a time. A pod with another gate follows once
that is removed. After writes that failed the pauses grow. The pod's placement text says why it is ungated.
"""

import asyncio
from collections.abc import Callable
from time import time
from typing import Final

import structlog

from webhook.controllers.metric_recorder import ControllerMetrics, Ungated
from webhook.controllers.sweep import Sweep
from webhook.formats.patches.affinity_patch import Constraint
from webhook.internal_errors import Where, internal_error
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pacing import Backoff
from webhook.kube.pod_writes import PodWrites
from webhook.model.raw import Raw
from webhook.placing.pod.controller_patches import ungate_patch
from webhook.placing.pod.gated_pods import seconds_waited
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Mode

log = structlog.get_logger(__name__)

_LONGEST_PAUSE_SECONDS: Final = 30.0


class GateRemoval(Sweep):
    """Ungates pods; works while `is_leader()`. concurrency: pods that are written at a time."""

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        events: EventRecorder,
        mode: Mode,
        is_leader: Callable[[], bool],
        metrics: ControllerMetrics,
        concurrency: int,
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._events = events
        self._note = f"ungated: the mode is {mode}, so no pod is placed"
        self._metrics = metrics
        self._slots = asyncio.Semaphore(concurrency)
        self._backoff = Backoff(base=self.period, cap=_LONGEST_PAUSE_SECONDS)
        self._not_before = 0.0

    async def _sweep(self, now: float) -> None:
        if now < self._not_before:
            return
        gated = tuple(self._cache.gated_pods().items())
        failed = [error for error in await asyncio.gather(*(self._error(key, raw) for key, raw in gated)) if error]
        if failed:
            log.warning("pods.not_ungated", pods=len(failed), error=failed[-1])
            self._not_before = now + self._backoff.next(0.2)
        else:
            self._backoff.reset()

    async def _error(self, key: str, raw: Raw) -> str:
        """Ungate a pod; returns why that failed, and an empty text if it did not."""
        async with self._slots:
            if not self._is_leader():
                return ""
            try:
                write = await self._writes.patch(key, ungate_patch(raw, Constraint(), self._note))
            except Exception as error:  # noqa: BLE001 # only this pod stays gated until the next sweep
                return internal_error(Where.POD, error, pod=key)
            if write.is_written:
                log.info("pod.ungated", pod=key, why=self._note)
                self._metrics.ungated(Ungated.MODE, seconds_waited(raw, time()))
                self._events.tell(PodEvent(key, raw["metadata"].get("uid", ""), "Ungated", self._note, "Ungate"))
            return "" if write.is_settled else write.error or write.outcome.value
