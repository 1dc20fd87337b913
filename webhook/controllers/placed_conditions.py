"""Writes the condition `topology-webhook.dev/Placed` into pods, so that `kubectl wait` can wait for their placement.

The status is a resource of its own, so this is one more write for each pod. Nothing waits for it:
1. Every second the leader compares the condition of each pod with its state: True once it is assigned or bound, False
   once its waiting reason has been reported. Its message is the placement annotation.
2. While many pods get their nodes, nothing is compared or written: a burst needs the API server and this process for
   itself. If that lasts for more than a minute, conditions are written all the same.
3. The rest is written one by one, by namespace in turn, at a limited rate. A pod is compared again right before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog

from webhook.controllers.sweep import Sweep
from webhook.formats.kubernetes.placed_condition import PlacedCondition, placed_condition
from webhook.internal_errors import Where, contained
from webhook.kube.pacing import FairQueue, RateLimiter
from webhook.kube.pod_writes import PodWrites
from webhook.model.names import PLACEMENT
from webhook.model.raw import Raw
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# As many as Events: client-go's recorder limits a controller to about this rate.
_RATE, _BURST = 20.0, 20
# More pods than this get a node within a sweep: the leader is busy. In a burst on a slow machine it is three a second.
_BUSY_PODS: Final = 2
_LONGEST_DELAY_SECONDS: Final = 60.0
# A written condition is visible long before this time. Another controller may remove it again and again.
_AGAIN_SECONDS: Final = 30.0
# The scheduler's first attempts at a pod that is not pinned to a node take less.
_UNASSIGNED_SECONDS: Final = 10.0
# Pods to compare before reviews may run: a millisecond of work.
_TURN: Final = 200

_Incarnation = tuple[str, str]
"""(namespace/name, uid)."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A condition that a pod lacks."""

    condition: PlacedCondition
    since: str | None
    """When its status became what it is; None: with this write."""


class PlacedConditions(Sweep):
    """Writes while `is_leader()`. reported_reason: why a pod (namespace/name, uid) waits, once that is told."""

    # A comparison of 5,000 pods takes 50 ms or so.
    rest_per_work, longest_rest = 20.0, 5.0

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        reported_reason: Callable[[str, str], str | None],
        is_leader: Callable[[], bool],
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._reported_reason = reported_reason
        self._pace = RateLimiter(_RATE, _BURST)
        self._with_node: set[tuple[str, bool]] = set()
        self._busy_since: float | None = None
        self._ungated_at: dict[_Incarnation, float] = {}
        self._written: dict[_Incarnation, tuple[PlacedCondition, float]] = {}

    def is_delayed(self) -> bool:
        """Whether many pods got their nodes a moment ago, so that what is written for people alone should wait."""
        return self._busy_since is not None

    async def _sweep(self, now: float) -> None:
        if not self._is_busy():
            self._busy_since = None
        elif self._busy_since is None:
            self._busy_since = now
        if self._busy_since is not None and now - self._busy_since < _LONGEST_DELAY_SECONDS:
            return
        wanted = await self._all_wanted(now)
        self._written = {one: entry for one, entry in self._written.items() if now - entry[1] < _AGAIN_SECONDS}
        queue: FairQueue[_Incarnation, _Wanted] = FairQueue()
        for one, lacking in wanted.items():
            if not self._is_written(one, lacking):
                queue.put(one[0].partition("/")[0], one, lacking)
        for _ in range(min(len(queue), int(_RATE * self.period))):
            one, _lacking = queue.pop()
            await self._work.wait_for(self._pace.turn())
            with contained(Where.POD, pod=one[0]):
                await self._write(one, now)

    def _forget(self) -> None:
        self._busy_since = None

    def _is_busy(self) -> bool:
        """Whether many pods got their nodes since the last sweep."""
        with_node = {(key, pod.bound) for key, pod in self._cache.ours.unconfirmed().items()}
        new, self._with_node = with_node - self._with_node, with_node
        return len(new) > _BUSY_PODS

    async def _all_wanted(self, now: float) -> dict[_Incarnation, _Wanted]:
        """What each pod lacks."""
        pods: dict[_Incarnation, None] = {(key, pod.uid): None for key, pod in self._cache.ours.unconfirmed().items()}
        pods |= dict.fromkeys(map(_incarnation, self._cache.ours.gated().items()))
        ungated = set(map(_incarnation, self._cache.ours.ungated().items()))
        self._ungated_at = {one: self._ungated_at.get(one, now) for one in ungated}
        pods |= {one: None for one, at in self._ungated_at.items() if now - at >= _UNASSIGNED_SECONDS}
        found = {}
        for turn, one in enumerate(pods, 1):
            with contained(Where.POD, pod=one[0]):
                if lacking := self._lacking(one):
                    found[one] = lacking
            if turn % _TURN == 0:
                await self._work.pause()  # let reviews run
        return found

    def _lacking(self, one: _Incarnation) -> _Wanted | None:
        """The condition that the pod lacks; None if it lacks none, or none is due."""
        key, uid = one
        if (pod := self._cache.ours.unconfirmed().get(key)) and pod.uid == uid:
            return _Wanted(PlacedCondition.of("True", "Bound" if pod.bound else "Assigned", pod.text), None)
        raw = self._cache.waiting_pod(key, uid)
        if raw is None or placed_condition(raw).get("status") == "True":
            return None
        if key not in self._cache.ours.gated():
            return None if raw["spec"].get("schedulingGates") else _not_placed(raw, "WaitingForScheduler")
        reason = self._reported_reason(key, uid)
        # While its assignment is being written, a write to its status would make that fail.
        return None if reason is None or self._cache.assumed_node(key) else _not_placed(raw, reason)

    def _is_written(self, one: _Incarnation, lacking: _Wanted) -> bool:
        known = self._written.get(one)
        # A pod that was bound while its condition was on its way needs no other one.
        return known is not None and (known[0] == lacking.condition or known[0].status == "True")

    async def _write(self, one: _Incarnation, now: float) -> None:
        """Write the condition that the pod lacks by now, if it still lacks one."""
        lacking = self._lacking(one)
        if lacking is None or not self._is_leader():
            return
        since = lacking.since or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._written[one] = lacking.condition, now
        write = await self._work.wait_for(self._writes.set_condition(*one, lacking.condition.to_object(since)))
        if not write.is_settled:
            log.debug("condition.failed", pod=one[0], error=write.error)


def _incarnation(pod: tuple[str, Raw]) -> _Incarnation:
    key, raw = pod
    return key, str(raw["metadata"].get("uid", ""))


def _not_placed(raw: Raw, reason: str) -> _Wanted | None:
    text = (raw["metadata"].get("annotations") or {}).get(PLACEMENT, "")
    condition = PlacedCondition.of("False", reason, text)
    if condition.is_said(raw):
        return None
    found = placed_condition(raw)
    return _Wanted(condition, found.get("lastTransitionTime") if found.get("status") == "False" else None)
