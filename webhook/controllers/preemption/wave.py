"""Ends the victims of one preemptor: all of them, or none.

1. All victims are tried with a dry run. If the API server refuses one (a right, another webhook, a budget that has
   changed since), none ends.
2. The choice is verified, and the preemptor's members are nominated on their nodes. kube-scheduler then counts them
   there against pods of lower or equal priority, and the next leader reads from this what is held. Nominated for a
   choice that no longer holds, they would make the scheduler preempt pods for others that it binds to these nodes.
3. The choice is verified once more. Nothing is awaited between this and the first call that ends a pod.
4. Each victim is evicted, and gets the condition `DisruptionTarget`. The eviction API writes this condition, too, with
   a reason of its own, so ours is written after it. A pod whose end violates a PodDisruptionBudget is deleted instead,
   as kube-scheduler does: the eviction API would refuse that. So is a pod that several budgets count, as that API
   cannot evict it at all. Then the condition comes first: nothing else would write it.

5. If an end is postponed after others have begun, it is retried for some seconds, so that the others have
   not been evicted for nothing.

Source: kubernetes pkg/scheduler/framework/preemption/executor.go (preemptPod).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from functools import partial
from typing import Final

import structlog

from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome, Write
from webhook.model.wording import counted
from webhook.placing.preemption.holds import Hold
from webhook.placing.preemption.takeover import Nomination
from webhook.placing.waiting_unit import WaitingUnit

log = structlog.get_logger(__name__)

CONDITION: Final = "DisruptionTarget"
# A budget counts a pod that became ready, or priority and fairness lets calls pass again, within seconds. A longer wait
# keeps the others' room from a preemptor that may fit elsewhere.
_RETRIES: Final = 4
_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY_SECONDS: Final = 5.0
REASON: Final = "PreemptionByTopologyWebhook"


class WaveOutcome(Enum):
    """How a wave ended."""

    SENT = auto()
    """All victims are being deleted, or were gone."""
    PARTIAL = auto()
    """Some are; the API server refused to end the others. The hold's victims are now those that end."""
    REFUSED = auto()
    """The API server refuses to end one of them; no pod was ended."""
    OUTDATED = auto()
    """The choice no longer holds; no pod was ended."""


@dataclass(frozen=True, slots=True)
class Wave:
    """The victims of one preemptor."""

    preemptor: WaitingUnit
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
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._is_leader = is_leader
        self._writes = writes
        self._events = events
        self._metrics = metrics
        self._sleep = sleep
        self._slots = asyncio.Semaphore(concurrency)

    async def send(self, wave: Wave, still_holds: Callable[[], bool], is_held: Callable[[], bool]) -> WaveOutcome:
        """End the victims.

        still_holds: whether the preemptor needs them, and we still lead. is_held: whether we lead and still hold the
        place.
        """
        if not still_holds():
            return WaveOutcome.OUTDATED
        victims = wave.hold.victims
        tried = await self._each(wave, self._try, victims, self._is_leader)
        if kept := tried.keys() - _with(tried, Outcome.WRITTEN, Outcome.GONE):
            self._refused(wave, tried, kept)
            return WaveOutcome.REFUSED
        if not still_holds():
            return WaveOutcome.OUTDATED
        await self.nominate(wave.hold)
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
        ended = await self._each(wave, self._end, victims, is_held)
        for _ in range(_RETRIES):
            postponed = _with(ended, Outcome.NOT_NOW)
            if not postponed or not _with(ended, Outcome.WRITTEN, Outcome.UNKNOWN):
                break
            asked = max(ended[key].retry_after for key in postponed)
            await self._sleep(min(max(asked, _RETRY_SECONDS), _LONGEST_RETRY_SECONDS))
            if not is_held():
                break
            ended |= await self._each(wave, self._end, {key: victims[key] for key in postponed}, is_held)
        for key in _with(ended, Outcome.WRITTEN, Outcome.UNKNOWN):
            self._metrics.preempted(violates=key in wave.violating)
        done = _with(ended, Outcome.WRITTEN, Outcome.GONE, Outcome.STALE, Outcome.UNKNOWN)
        kept = ended.keys() - done
        if not kept:
            return WaveOutcome.SENT
        if not is_held():
            return WaveOutcome.OUTDATED
        self._refused(wave, ended, kept)
        if not _with(ended, Outcome.WRITTEN, Outcome.UNKNOWN):
            return WaveOutcome.REFUSED
        wave.hold.victims = {key: uid for key, uid in victims.items() if key in done}
        return WaveOutcome.PARTIAL

    async def nominate(self, hold: Hold) -> None:
        """Nominate the members where the hold has places for them."""
        nominate = self._writes.nominate
        await asyncio.gather(
            *(self._write(key, partial(nominate, key, hold.members[key], node)) for key, node in hold.places.items())
        )

    async def clear(self, nominations: Iterable[Nomination]) -> None:
        """Remove these nominations."""
        await asyncio.gather(
            *(self._write(one.key, partial(self._writes.clear_nomination, *one)) for one in nominations)
        )

    async def _write(self, key: str, call: Callable[[], Awaitable[Write]]) -> None:
        async with self._slots:
            if not self._is_leader():
                return
            write = await call()
        if not write.is_settled:
            log.warning("preemption.nomination_failed", pod=key, error=write.error)

    async def _each(
        self,
        wave: Wave,
        call: Callable[[Wave, str, str], Awaitable[Write]],
        victims: Mapping[str, str],
        goes_on: Callable[[], bool],
    ) -> dict[str, Write]:
        async def one(key: str, uid: str) -> Write:
            async with self._slots:
                return await call(wave, key, uid) if goes_on() else Write(Outcome.NOT_NOW, "no longer needed")

        answers = await asyncio.gather(*(one(key, uid) for key, uid in victims.items()))
        return dict(zip(victims, answers, strict=True))

    async def _try(self, wave: Wave, key: str, uid: str) -> Write:
        return await self._remove(wave, key, uid, dry_run=True)

    async def _end(self, wave: Wave, key: str, uid: str) -> Write:
        message = f"preempted by {wave.preemptor.unseen_from(key)}"
        condition = disruption_target(message)
        if wave.is_deleted(key):
            await self._writes.set_condition(key, uid, condition)
        answer = await self._remove(wave, key, uid, dry_run=False)
        if answer.is_written and not wave.is_deleted(key):
            await self._writes.set_condition(key, uid, condition)
        if answer.outcome in {Outcome.WRITTEN, Outcome.UNKNOWN}:
            self._events.tell(PodEvent(key, uid, "Preempted", message, "Preempt", "Warning"))
        return answer

    async def _remove(self, wave: Wave, key: str, uid: str, *, dry_run: bool) -> Write:
        remove = self._writes.delete_pod if wave.is_deleted(key) else self._writes.evict
        answer = await remove(key, uid, dry_run=dry_run)
        if not answer.is_settled:
            log.warning("preemption.victim_kept", pod=key, dry_run=dry_run, error=answer.error)
        return answer

    def _refused(self, wave: Wave, answers: Mapping[str, Write], kept: Iterable[str]) -> None:
        """Tell the preemptor. The API server's message may quote victims of other tenants."""
        if not self._is_leader():
            return
        kept = sorted(kept)
        reason = answers[kept[0]].reason
        whole = counted(len(answers), "lower-priority pod")
        text = f"{len(kept)} of {whole} cannot be evicted for it: {reason}"
        for member in wave.preemptor.members[:1]:
            self._events.tell(PodEvent(member.key, member.pod.uid, "PreemptionRefused", text, "Preempt", "Warning"))

    def _tell_preemptor(self, wave: Wave) -> None:
        pods = counted(len(wave.hold.victims), "lower-priority pod")
        against = f", {len(wave.violating)} of them against a PodDisruptionBudget" if wave.violating else ""
        text = f"{wave.preemptor.text} preempts {pods} on {', '.join(sorted(wave.hold.nodes))}{against}"
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


def _with(answers: Mapping[str, Write], *outcomes: Outcome) -> set[str]:
    return {key for key, answer in answers.items() if answer.outcome in outcomes}
