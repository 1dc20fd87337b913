"""Reports what ungated pods wait for that are not bound: in their own annotation and in an Event.

The scheduler's own Event gives its reason. Ours adds, where users look for the placement, why the pod was delegated to
the scheduler, or that an assigned pod lost its reservation (see `unbindable_pods`).

Every second the leader checks the pods that are ungated and not bound, and delegated to the scheduler or without their
reservation:
1. If the scheduler's last attempt failed, by the condition that it writes into the pod, its message is reported.
2. Messages that differ only in numbers, such as node counts, are reported once.
3. Each pod gets at most one report every half minute, and the total rate is limited.
"""

import re
from collections.abc import Callable
from typing import Final

from webhook.controllers.sweep import Sweep
from webhook.internal_errors import Where, contained
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pacing import RateLimiter
from webhook.kube.pod_writes import PodWrites
from webhook.model.raw import Raw
from webhook.placing.pod.binding_pod import assigned_node
from webhook.placing.pod.controller_patches import status_patch
from webhook.placing.pod.placement_text import shortened
from webhook.state.cluster_cache import ClusterCache
from webhook.state.delegated_pods import delegation_text, last_failure, why_delegated, why_untold
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_not_mutated

# Six times the scheduler's longest pause between two attempts would be a minute; users look sooner.
_AGAIN_SECONDS: Final = 30.0
# The same rate as for gated pods (see `status_reporter`).
_RATE, _BURST = 10.0, 50
_PER_SWEEP: Final = 50
_NUMBERS: Final = re.compile(r"\d+")


class DelegatedPods(Sweep):
    """Reports on pods that are delegated to the scheduler, and on assigned pods without a reservation."""

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        events: EventRecorder,
        rules: Rules,
        is_leader: Callable[[], bool],
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._events = events
        self._rules = rules
        self._pace = RateLimiter(_RATE, _BURST)
        self._reported: dict[tuple[str, str], tuple[str, float]] = {}

    async def _sweep(self, now: float) -> None:
        pods = {(key, raw["metadata"].get("uid", "")): raw for key, raw in self._cache.ours.ungated().items()}
        self._reported = {one: reported for one, reported in self._reported.items() if one in pods}
        reported = 0
        for (key, uid), raw in pods.items():
            with contained(Where.POD, pod=key):
                reported += await self._report(key, uid, raw, now)
            if reported == _PER_SWEEP:
                return

    async def _report(self, key: str, uid: str, raw: Raw, now: float) -> int:
        """Report on one pod; returns the number of reports, 0 or 1."""
        text = why_not_bound(raw, self._rules)
        if text is None or not self._is_news((key, uid), text, now):
            return 0
        self._reported[key, uid] = _NUMBERS.sub("#", text), now
        if patch := status_patch(raw, text):
            self._events.tell(PodEvent(key, uid, "WaitingForScheduler", text, "Assign"))
            await self._pace.turn()
            # If the pod has changed since, this patch fails and is not repeated: the Event says the same.
            await self._writes.patch(key, patch)
        return 1

    def _is_news(self, pod: tuple[str, str], text: str, now: float) -> bool:
        known = self._reported.get(pod)
        return known is None or (known[0] != _NUMBERS.sub("#", text) and now - known[1] >= _AGAIN_SECONDS)


def why_not_bound(raw: Raw, rules: Rules) -> str | None:
    """What a pod waits for that is delegated to the scheduler, or assigned and without a reservation.

    None for any other pod, or if nothing is known.
    """
    if "deletionTimestamp" in raw["metadata"] or why_not_mutated(raw, rules):
        return None
    allocation, why = assigned_node(raw), why_delegated(raw)
    if allocation is not None:
        return None if allocation.reserved else assigned_not_bound(allocation.node, raw)
    return None if why is None else _not_bound(delegation_text(why), last_failure(raw))


def assigned_not_bound(node: str, raw: Raw) -> str | None:
    """The text of an assigned pod that the scheduler cannot bind; None if its first attempt is still to come."""
    begins = f"placed on {node}, where nothing is reserved for it any more"
    return _not_bound(begins, last_failure(raw) or why_untold(raw))


def _not_bound(begins: str, failure: str | None) -> str | None:
    return None if failure is None else shortened(f"{begins}; not bound yet: {failure}")
