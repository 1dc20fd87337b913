"""The gated pods that are ready for an attempt, in order. The others are reported or ungated.

1. The owners of the gated pods are read in the background. A pod takes their annotations as soon as they are known (see
   `webhook.controllers.owner_chains`), and waits until then.
2. So it is with a PodGroup of Kubernetes itself (see `native_request`).
3. A pod that is not managed, and one that requests nothing although its owners are known, is ungated.
4. A pod that cannot be parsed waits and reports the fault.
5. A single pod whose assignment is being written is left out.
6. All others are ready, sorted by priority (highest first), then age (oldest first), then name.

A fault with one pod affects only that pod.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from webhook.controllers.owner_chains import OwnerChains
from webhook.controllers.placement.failure_handler import FailureHandler
from webhook.controllers.placement.pending_pods import PendingPods
from webhook.controllers.placement.work_clock import WorkClock
from webhook.internal_errors import INTERNAL, Where, contained
from webhook.placing.planner import Cycle, Waits
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.gated_pods import GatedPod, GatedPods
from webhook.placing.pod.native_request import GroupBasis
from webhook.placing.pod.placement_text import waiting as waits
from webhook.placing.pod.wait_reason import WaitReason
from webhook.state.cluster_cache import ClusterCache


class ReadyPods:
    """The gated pods, from their objects to those that are ready."""

    def __init__(
        self,
        cache: ClusterCache,
        pods: GatedPods,
        owner_chains: OwnerChains,
        pending: PendingPods,
        failures: FailureHandler,
    ) -> None:
        self._cache = cache
        self._pods = pods
        self._owner_chains = owner_chains
        self._pending = pending
        self._failures = failures

    async def of(self, gated: Mapping[str, Mapping[str, Any]], cycle: Cycle, work: WorkClock) -> list[GatedPod]:
        """The ready ones of these gated pods (by namespace/name), in order. Reviews may run meanwhile."""
        await work.result_of(self._pods.update(gated))
        groups = self._cache.native_groups.served()
        self._owner_chains.want(self._pods.owners())
        self._pods.take(self._owner_chains.get, partial(GroupBasis.of, groups, self._cache.topologies_by_name()))
        for key, (raw, why) in self._pods.unmanaged.items():
            with contained(Where.POD, pod=key):
                self._failures.unmanaged(key, raw, why)
        for key, (raw, why) in self._pods.faults.items():
            with contained(Where.POD, pod=key):
                if not self._pending.has(key, raw["metadata"].get("uid", "")) or why.startswith(INTERNAL):
                    self._failures.unreadable(key, raw, why)
        ready, avoided = [], self._cache.avoided.by_key()
        for pod in self._pods.in_order(self._pending.being_written):
            with contained(Where.POD, pod=pod.key):
                if self._is_ready(pod, cycle):
                    ready.append(pod.avoiding(avoided))
        return ready

    def _is_ready(self, gated: GatedPod, cycle: Cycle) -> bool:
        """Whether its owners are known, and it or they request something."""
        owner = gated.owner
        if owner and (why := self._owner_chains.why_not(gated.pod.namespace, owner)):
            if not self._pending.has(gated.key, gated.pod.uid):
                found = NoAssignment(frozenset({"owner", why}), waits(f"its owners: {why}"), WaitReason.OWNERS)
                self._failures.unassigned(Waits(gated, found), cycle)
            return False
        if not gated.asks:
            self._failures.unmanaged(gated.key, gated.raw, gated.why_unasked)
        return gated.asks
