"""Releases the reservations of placed pods that the scheduler cannot bind, so that they block no other pod.

A placed pod may never be bound: its volume does not exist, its topology spread cannot be satisfied, another pod's
anti-affinity or a taint excludes its node. Until it is bound only its equals are placed beside it (see `assignment`),
and
no binding takes its NUMA nodes (see `admission.binding.decision`). So twice a second the leader looks at the pods that
are placed
and not bound:
1. The scheduler said of one that it found no way to bind it (`is_unschedulable`), and has said nothing else for a
   while.
   Or it has said nothing for longer than it takes to try a pod, where it never may (`why_untold`).
2. The leader writes into its hint that nothing is reserved for it, and into its placement what it waits for. Only once
   that is seen in the pod are its NUMA nodes and its share of the node others'. So a hint that names NUMA nodes is
   never given to others, and every replica, and the next leader, reads the same from the pod.
3. The pod stays held to its node, as a gate cannot be put back, and keeps its seat in its group: the members that come
   later go to the same domain, the others run.
4. It is bound after all: the guard gives it what is free on the node then, or refuses with the reason. For one that
   would fit elsewhere `stuck` has an Event, or evicts it. What was taken back is never reserved again before that.

A pod that merely waits its turn loses nothing by this:
- Before the scheduler's first attempt the condition's reason is another one (SchedulingGated), or there is none.
- Refused by us at its binding, whose turn it is not, it has the reason SchedulerError.
- One for which the scheduler makes room has a nominated node.
- A first attempt that came too early (the scheduler knew the node later than we) is made good by the second.
So the node is really closed to such a pod, and its place would stay unused.

Source: kubernetes pkg/scheduler/schedule_one.go (handleSchedulingFailure, bindingCycle).
"""

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final, NoReturn

import structlog

from webhook.admission.binding.decision import assigned_node
from webhook.admission.pod.controller_patches import forget_patch
from webhook.cache.cluster_cache import ClusterCache
from webhook.cache.delegated_pods import is_unschedulable, why_untold
from webhook.cache.unmanaged import why_not_mutated
from webhook.controllers.unbound_pods import assigned_not_bound
from webhook.internal_errors import Where, contained
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pod_writes import Outcome, PodWrites
from webhook.model.hint import NUMAHint
from webhook.model.rules import Rules

log = structlog.get_logger(__name__)

_PERIOD_SECONDS: Final = 0.5
# The scheduler's second attempt comes 1 s after the first (podInitialBackoffSeconds); its backoff queue is looked at
# once a second.
_PATIENCE_SECONDS: Final = 2.0
# The scheduler tries some 100 pods a second: by then 3,000 that came before have had their turn.
_UNTOLD_SECONDS: Final = 30.0

_Failing = tuple[str, str, float]
"""(namespace/name, uid, seconds that it may be so before what is reserved goes back)."""


class UnbindablePods:
    """Looks after pods that are placed and not bound; `concurrency`: pods that are written at a time."""

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        events: EventRecorder,
        rules: Rules,
        is_leader: Callable[[], bool],
        concurrency: int,
    ) -> None:
        self._cache = cache
        self._writes = writes
        self._events = events
        self._rules = rules
        self._is_leader = is_leader
        self._concurrency = concurrency
        self._since: dict[_Failing, float] = {}

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            await self.sweep(monotonic())

    async def sweep(self, now: float) -> None:
        """Look once; now: seconds on a clock that never goes back."""
        failing = self._failing()
        self._since = {one: self._since.get(one, now) for one in failing}
        due = [one for one, since in self._since.items() if now - since >= one[2]]
        for first in range(0, len(due), self._concurrency):
            if not self._is_leader():
                return
            some = due[first : first + self._concurrency]
            await asyncio.gather(*(self._give_back(one[0], one[1], failing[one]) for one in some))

    def _failing(self) -> dict[_Failing, Mapping[str, Any]]:
        """The placed pods with a reservation that the scheduler cannot bind, as far as it says so or never will."""
        found: dict[_Failing, Mapping[str, Any]] = {}
        for key, raw in self._cache.ungated_pods().items():
            with contained(Where.POD, pod=key):
                patience = _PATIENCE_SECONDS if is_unschedulable(raw) else _UNTOLD_SECONDS if why_untold(raw) else None
                hint = None if patience is None else assigned_node(raw)
                if patience is None or hint is None or not hint.reserved:
                    continue
                if "deletionTimestamp" not in raw["metadata"] and not why_not_mutated(raw, self._rules):
                    found[key, raw["metadata"].get("uid", ""), patience] = raw
        return found

    async def _give_back(self, key: str, uid: str, raw: Mapping[str, Any]) -> None:
        with contained(Where.POD, pod=key):
            hint = assigned_node(raw)
            text = None if hint is None else assigned_not_bound(hint.node, raw)
            if hint is None or text is None:
                return
            empty = NUMAHint.without_reservation(hint.node)
            patch = forget_patch(raw, empty, self._cache.sign(uid, empty.to_json()), text)
            outcome = await self._writes.patch(key, patch)
            if outcome is Outcome.WRITTEN:
                log.info("pod.reservation_forgotten", pod=key, node=hint.node)
                self._events.tell(PodEvent(key, uid, "WaitingForScheduler", text, "Assign"))
            elif outcome not in {Outcome.STALE, Outcome.GONE}:
                log.warning("pod.reservation_kept", pod=key, error=self._writes.error)
