"""Ends the victims of one preemptor: all of them, or none.

1. The preemptor's members are nominated on their nodes. kube-scheduler then counts them there against pods of lower or
   equal priority, and the next leader reads from this what is held.
2. All victims are tried with a dry run. If the API server refuses one (a right, another webhook, a budget that has
   changed since), none ends.
3. The choice is verified once more. Nothing is awaited between this and the first call that ends a pod.
4. Each victim is evicted, and gets the condition `DisruptionTarget`. The eviction API writes this condition, too, with
   a reason of its own, so ours is written after it. A pod whose end violates a PodDisruptionBudget is deleted instead,
   as kube-scheduler does: the eviction API would refuse that. So is a pod that several budgets count, as that API
   cannot evict it at all. Then the condition comes first: nothing else would write it.

Source: kubernetes pkg/scheduler/framework/preemption/executor.go (preemptPod).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Final

import structlog

from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.controllers.preemption.holds import Hold
from webhook.controllers.preemption.preemptor import Preemptor
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pod_writes import Outcome, PodWrites

log = structlog.get_logger(__name__)

CONDITION: Final = "DisruptionTarget"
REASON: Final = "PreemptionByTopologyWebhook"


class WaveOutcome(Enum):
    """How a wave ended."""

    SENT = auto()
    """All victims are being deleted, or were gone."""
    REFUSED = auto()
    """The API server refuses to end one of them."""
    OUTDATED = auto()
    """The choice no longer holds; no pod was ended."""


@dataclass(frozen=True, slots=True)
class Wave:
    """The victims of one preemptor."""

    preemptor: Preemptor
    hold: Hold
    violating: frozenset[str]
    """Those whose end violates a PodDisruptionBudget, by namespace/name."""
    shared: frozenset[str] = frozenset()
    """Those that several PodDisruptionBudgets count: the eviction API refuses them always."""

    def is_deleted(self, key: str) -> bool:
        """Whether the victim namespace/name is deleted instead of evicted."""
        return key in self.violating or key in self.shared


class Waves:
    """Sends waves; at most `concurrency` calls of all waves at a time."""

    def __init__(
        self,
        writes: PodWrites,
        events: EventRecorder,
        metrics: ControllerMetrics,
        is_leader: Callable[[], bool],
        concurrency: int,
    ) -> None:
        self._is_leader = is_leader
        self._writes = writes
        self._events = events
        self._metrics = metrics
        self._slots = asyncio.Semaphore(concurrency)

    async def send(self, wave: Wave, still_holds: Callable[[], bool]) -> WaveOutcome:
        """End the victims. still_holds: whether the preemptor needs them, and we still lead."""
        if not still_holds():
            return WaveOutcome.OUTDATED
        await self.nominate(wave.hold)
        tried = await self._each(wave, self._try)
        if tried.keys() - _done(tried, Outcome.WRITTEN, Outcome.GONE):
            return self._refused(wave)
        if not still_holds():
            return WaveOutcome.OUTDATED
        log.info(
            "preemption.evicting",
            preemptor=wave.preemptor.name,
            nodes=sorted(wave.hold.nodes),
            victims=sorted(wave.hold.victims),
            violating=sorted(wave.violating),
        )
        self._tell_preemptor(wave)
        ended = await self._each(wave, self._end)
        for key, outcome in ended.items():
            if outcome in {Outcome.WRITTEN, Outcome.UNKNOWN}:
                self._metrics.preempted(violates=key in wave.violating)
        done = _done(ended, Outcome.WRITTEN, Outcome.GONE, Outcome.STALE, Outcome.UNKNOWN)
        return self._refused(wave) if ended.keys() - done else WaveOutcome.SENT

    async def nominate(self, hold: Hold) -> None:
        """Nominate the members where the hold has places for them."""
        await asyncio.gather(*(self._nominate(key, hold.members[key], node) for key, node in hold.places.items()))

    async def forget(self, hold: Hold) -> None:
        """Remove the nominations of a hold that has ended in vain."""
        await asyncio.gather(*(self._nominate(key, hold.members[key], None) for key in hold.places))

    async def _nominate(self, key: str, uid: str, node: str | None) -> None:
        async with self._slots:
            if not self._is_leader():
                return
            outcome = await self._writes.nominate(key, uid, node)
        if outcome not in {Outcome.WRITTEN, Outcome.STALE, Outcome.GONE}:
            log.warning("preemption.nomination_failed", pod=key, error=self._writes.error)

    async def _each(self, wave: Wave, call: Callable[[Wave, str, str], Awaitable[Outcome]]) -> Mapping[str, Outcome]:
        victims = wave.hold.victims

        async def one(key: str, uid: str) -> Outcome:
            async with self._slots:
                return await call(wave, key, uid) if self._is_leader() else Outcome.NOT_NOW

        outcomes = await asyncio.gather(*(one(key, uid) for key, uid in victims.items()))
        return dict(zip(victims, outcomes, strict=True))

    async def _try(self, wave: Wave, key: str, uid: str) -> Outcome:
        return await self._remove(wave, key, uid, dry_run=True)

    async def _end(self, wave: Wave, key: str, uid: str) -> Outcome:
        message = f"preempted by {wave.preemptor.unseen_from(key)}"
        condition = disruption_target(message)
        if wave.is_deleted(key):
            await self._writes.set_condition(key, uid, condition)
        outcome = await self._remove(wave, key, uid, dry_run=False)
        if outcome is Outcome.WRITTEN and not wave.is_deleted(key):
            await self._writes.set_condition(key, uid, condition)
        if outcome in {Outcome.WRITTEN, Outcome.UNKNOWN}:
            self._events.tell(PodEvent(key, uid, "Preempted", message, "Preempt", "Warning"))
        return outcome

    async def _remove(self, wave: Wave, key: str, uid: str, *, dry_run: bool) -> Outcome:
        remove = self._writes.delete_pod if wave.is_deleted(key) else self._writes.evict
        outcome = await remove(key, uid, dry_run=dry_run)
        if outcome not in {Outcome.WRITTEN, Outcome.GONE, Outcome.STALE}:
            log.warning("preemption.victim_kept", pod=key, dry_run=dry_run, error=self._writes.error)
        return outcome

    def _refused(self, wave: Wave) -> WaveOutcome:
        text = f"pods of lower priority cannot be evicted for it: {self._writes.error}"
        for member in wave.preemptor.members[:1]:
            self._events.tell(PodEvent(member.key, member.pod.uid, "PreemptionRefused", text, "Preempt", "Warning"))
        return WaveOutcome.REFUSED

    def _tell_preemptor(self, wave: Wave) -> None:
        count = len(wave.hold.victims)
        pods = "1 pod" if count == 1 else f"{count} pods"
        against = f", {len(wave.violating)} of them against a PodDisruptionBudget" if wave.violating else ""
        text = (
            f"{wave.preemptor.text} preempts {pods} of lower priority on {', '.join(sorted(wave.hold.nodes))}{against}"
        )
        for member in wave.preemptor.members[:1]:
            self._events.tell(PodEvent(member.key, member.pod.uid, "Preempting", text, "Preempt"))


def disruption_target(message: str) -> Mapping[str, str]:
    """The condition of a victim, as of now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": CONDITION,
        "status": "True",
        "reason": REASON,
        "message": message,
        "lastTransitionTime": now,
    }


def _done(outcomes: Mapping[str, Outcome], *done: Outcome) -> set[str]:
    return {key for key, outcome in outcomes.items() if outcome in done}
