"""Deletes pods that their kubelets rejected, some time later: a ReplicaSet leaves its failed pods in the API server.

Every few seconds the leader deletes managed pods that have a controller and were rejected longer ago than configured,
the oldest first. A pod without a controller stays: nothing has replaced it, and its owner may want to read it. The
deletion names uid and resource version, so a pod that has changed since is left for the next sweep. A pod that cannot
be deleted is retried later and delays no other.

A Job's pod with the finalizer of the Job controller is deleted once that has counted it.
"""

from collections.abc import Callable
from typing import Final

import structlog

from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.controllers.sweep import Sweep
from webhook.formats.kubernetes.rejected_pod import RejectedPod
from webhook.internal_errors import Where, contained
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# With the period: 20 a second, one after the other. A deletion takes the API server 10 to 20 ms.
_PER_SWEEP: Final = 100
_AGAIN_SECONDS: Final = 60.0


class RejectedPodDeletion(Sweep):
    """Deletes while `is_leader()`. after: seconds since the rejection."""

    period = 5.0

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        after: float,
        is_leader: Callable[[], bool],
        metrics: ControllerMetrics,
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._after = after
        self._metrics = metrics
        self._not_before: dict[str, float] = {}  # uid -> when a failed deletion is retried

    async def _sweep(self, now: float) -> None:
        rejected = self._cache.rejections.by_key().values()
        uids = {pod.uid for pod in rejected}
        self._not_before = {uid: at for uid, at in self._not_before.items() if uid in uids}
        due = [(at, pod) for pod in rejected if (at := self._due_since(pod, now)) is not None]
        for _, pod in sorted(due, key=lambda one: (one[0], one[1].key))[:_PER_SWEEP]:
            if not self._is_leader():
                return
            with contained(Where.POD, pod=pod.key):
                await self._delete(pod, now)

    def _due_since(self, pod: RejectedPod, now: float) -> int | None:
        """When the pod was rejected, if it is to be deleted now."""
        if pod.controller is None or pod.deleting or not pod.rejection.managed or pod.rejected_at is None:
            return None
        if self._cache.current_time() - pod.rejected_at < self._after or now < self._not_before.get(pod.uid, now):
            return None
        return pod.rejected_at

    async def _delete(self, pod: RejectedPod, now: float) -> None:
        # Also after a success: the watch shows it soon, or a finalizer keeps the pod for a while.
        self._not_before[pod.uid] = now + _AGAIN_SECONDS
        write = await self._writes.delete_version(pod.key, pod.uid, pod.resource_version)
        if write.is_written:
            log.info("pod.rejected_deleted", pod=pod.key, node=pod.node, reason=pod.rejection.reason)
            self._metrics.rejected_deleted()
        elif write.outcome is Outcome.STALE:
            del self._not_before[pod.uid]  # it has changed, and the watch shows it soon
        elif not write.is_settled:
            log.warning("pod.rejected_not_deleted", pod=pod.key, error=write.error)
