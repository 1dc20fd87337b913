"""Releases the reservations of assigned pods that the scheduler cannot bind, so that they block no other pod.

An assigned pod may never be bound: its volume does not exist, its topology spread cannot be satisfied, another pod's
anti-affinity or a taint excludes its node. Until it is bound, only equal pods are assigned to its node (see
`webhook.placing.pod.assignment`), and no binding takes its NUMA nodes (see
`webhook.admission.binding.decision`). So twice a second the leader checks the pods that are assigned and not bound:
1. The scheduler reported that it found no way to bind the pod (`is_unschedulable`), and has reported nothing else for a
   while. Or it may never report anything about this pod (`why_untold`), and has been silent for longer than an attempt
   takes.
2. The leader writes into its allocation that nothing is reserved for it, and into its placement annotation what it
waits for.
   Only once that is visible in the pod do other pods get its NUMA nodes and its share of the node. So an allocation
   that names
   NUMA nodes is never given to other pods, and every replica, and the next leader, reads the same from the pod.
3. The pod stays pinned to its node, because a gate cannot be restored. It keeps its assignment in its gang: members
   that come later go to the same domain, the others run.
4. If it is bound after all, the binding guard gives it what is free on the node then, or rejects it with the reason. If
   other nodes would fit, `stuck_pods` emits an Event or evicts it. A released reservation is never restored before
   that.

A pod that only waits for its turn loses nothing:
- Before the scheduler's first attempt the condition has another reason (SchedulingGated), or there is no condition.
- If we rejected its binding because it was not its turn, the reason is SchedulerError.
- If the scheduler makes room for it, it has a nominated node.
- If the first attempt came too early (we knew the node before the scheduler did), the second one corrects it.
So the node really is closed to a pod that is found here, and its reservation would stay unused.

Source: kubernetes pkg/scheduler/schedule_one.go (handleSchedulingFailure, bindingCycle).
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from webhook.controllers.sweep import Sweep
from webhook.controllers.unbound_pods import assigned_not_bound
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.kubernetes.membership import membership_of
from webhook.internal_errors import Where, contained
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pod_writes import PodWrites
from webhook.model.raw import Raw
from webhook.placing.pod.binding_pod import assigned_node
from webhook.placing.pod.controller_patches import forget_patch
from webhook.state.cluster_cache import ClusterCache
from webhook.state.delegated_pods import is_unschedulable, why_untold
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_not_mutated

log = structlog.get_logger(__name__)

# The scheduler's second attempt comes 1 s after the first (podInitialBackoffSeconds); it checks its backoff queue once
# a second.
_PATIENCE_SECONDS: Final = 2.0
# The scheduler tries about 100 pods a second: in this time it has tried 3,000 earlier pods.
_UNTOLD_SECONDS: Final = 30.0
# Of a group that the scheduler gates as a whole, the pods without room are tried with those that have it: one of them
# may take the node, by its sums, until the guard has refused it. Three of the scheduler's longest pauses (10 s) later
# the assigned pod has come first.
_BESIDE_OTHERS_SECONDS: Final = 30.0

_Failing = tuple[str, str, float]
"""(namespace/name, uid, seconds that this must last before the reservation is released)."""


class UnbindablePods(Sweep):
    """Watches pods that are assigned and not bound; `concurrency`: pods that are written at a time."""

    period = 0.5
    leader_only = False

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        events: EventRecorder,
        rules: Rules,
        is_leader: Callable[[], bool],
        concurrency: int,
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._events = events
        self._rules = rules
        self._concurrency = concurrency
        self._since: dict[_Failing, float] = {}

    async def _sweep(self, now: float) -> None:
        failing = self._failing()
        self._since = {one: self._since.get(one, now) for one in failing}
        due = [one for one, since in self._since.items() if now - since >= one[2]]
        for first in range(0, len(due), self._concurrency):
            if not self._is_leader():
                return
            some = due[first : first + self._concurrency]
            await asyncio.gather(*(self._give_back(one[0], one[1], failing[one]) for one in some))

    def _failing(self) -> dict[_Failing, Raw]:
        """The assigned pods with a reservation that the scheduler reports as unbindable, or may never report on."""
        found: dict[_Failing, Raw] = {}
        for key, raw in self._cache.ours.ungated().items():
            with contained(Where.POD, pod=key):
                patience = self._patience(raw)
                allocation = None if patience is None else assigned_node(raw)
                if patience is None or allocation is None or not allocation.reserved:
                    continue
                if "deletionTimestamp" not in raw["metadata"] and not why_not_mutated(raw, self._rules):
                    found[key, raw["metadata"].get("uid", ""), patience] = raw
        return found

    def _patience(self, raw: Raw) -> float | None:
        """The seconds that a pod's state must last; None if there is nothing to release."""
        if is_unschedulable(raw):
            beside_others = self._cache.is_gated_as_a_whole(membership_of(raw))
            return _BESIDE_OTHERS_SECONDS if beside_others else _PATIENCE_SECONDS
        return _UNTOLD_SECONDS if why_untold(raw) else None

    async def _give_back(self, key: str, uid: str, raw: Raw) -> None:
        with contained(Where.POD, pod=key):
            allocation = assigned_node(raw)
            text = None if allocation is None else assigned_not_bound(allocation.node, raw)
            if allocation is None or text is None:
                return
            empty = NUMAAllocation.without_reservation(allocation.node)
            patch = forget_patch(raw, empty, self._cache.sign(uid, empty.to_json()), text)
            write = await self._writes.patch(key, patch)
            if write.is_written:
                log.info("pod.reservation_forgotten", pod=key, node=allocation.node)
                self._events.tell(PodEvent(key, uid, "WaitingForScheduler", text, "Assign"))
            elif not write.is_settled:
                log.warning("pod.reservation_kept", pod=key, error=write.error)
