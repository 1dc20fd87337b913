"""Preempts pods for those that wait behind the gate: works while we lead.

Twice a second:
1. Holds whose phase or time is over are taken care of (see `holds`). The nominations of those that had no effect are
   removed, and no pods are chosen while too many have none (see `HoldsInVain`).
2. Whose turn it is (see `waiting_preemptors`) searches for victims (see `search`), unless there will be room beside
   another preemptor (see `beside`). A search works for a short time, then rests for four times as long: reviews need
   the event loop.
3. The place of a choice is held at once. A task of its own ends the victims (see `wave`), so that a call that hangs
   delays no other preemptor. No result of this is awaited by the placement of pods.

An exception affects only its own preemptor, which is tried again later.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from time import monotonic
from typing import Any, Final

import structlog

from webhook.controllers.metric_recorder import ControllerMetrics, Preemption
from webhook.controllers.preemption.wave import Wave, WaveOutcome, Waves
from webhook.controllers.sweep import Sweep, WorkClock, rest_after
from webhook.engine.preemption.candidates import Victims
from webhook.internal_errors import Where, contained
from webhook.placing.planner import Planner
from webhook.placing.pod.binding_pod import assigned_node
from webhook.placing.preemption.holds import Hold, Phase
from webhook.placing.preemption.search import Found
from webhook.placing.preemption.takeover import NominationSweep, have_room, without_hold
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_cache import ClusterCache
from webhook.steps import Steps

log = structlog.get_logger(__name__)

# A part of the placement controller's cycle (see `fair_order`).
_PART_SECONDS: Final = 0.015
# Searches between two checks of the holds. No other begins once the next check is due: a search may take seconds.
_PER_ROUND: Final = 64
# Nodes in one line of the log.
_MOST_NAMED: Final = 16


class PreemptionController(Sweep):
    """The leader's preemption. settle: seconds after which every exporter shows what ended pods have left."""

    period = 0.5

    def __init__(
        self,
        cache: ClusterCache,
        planner: Planner,
        waves: Waves,
        metrics: ControllerMetrics,
        is_leader: Callable[[], bool],
        settle: float,
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._planner = planner
        self._preemptors = planner.preemptors
        self._holds = planner.preemptors.holds
        self._metrics = metrics
        self._settle = settle
        self._search = planner.preemption
        self._waves = waves
        self._is_paused = False
        self._nominations = NominationSweep()
        self._tasks: set[asyncio.Task[None]] = set()

    async def _sweep(self, now: float) -> None:
        self.check_holds(now)
        await self.choose()

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()

    def check_holds(self, now: float) -> None:
        """Phase 1; now: seconds of `time.monotonic`."""
        self._preemptors.expire(now)
        gated, bound = self._cache.ours.gated(), self._cache.bound_pods.by_key()
        for hold in self._holds:
            with contained(Where.POD, preemptor=hold.name):
                if any(_uid(gated.get(key)) != uid for key, uid in hold.members.items()):
                    if any(self._node_of(key, uid) in hold.nodes for key, uid in hold.members.items()):
                        self._preemptors.succeeded(hold)
                    elif any(self._is_gone(key, uid) for key, uid in hold.members.items()):
                        self._preemptors.abandoned(hold, now)
                    self._drop(hold)  # placed, or gone
                    continue
                phase = hold.phase
                hold.update(now, bound)
                if hold.phase is not phase:
                    self._holds.changed.emit()
                if (hold.taken_over or hold.is_taken) and hold.phase is Phase.FREED and self._lacks_room(hold):
                    event = "preemption.place_taken" if hold.is_taken else "preemption.not_all_evicted"
                    log.info(event, preemptor=hold.name, nodes=sorted(hold.nodes))
                    self._drop(hold)
                elif not hold.has_expired(now, self._cache.current_time(), self._settle, bound):
                    continue
                elif hold.phase is Phase.FREED and (hold.is_taken or self._asks_else(hold)):
                    # No kubelet and no exporter is at fault.
                    log.info("preemption.place_taken", preemptor=hold.name, nodes=sorted(hold.nodes))
                    if not hold.is_taken:
                        self._preemptors.abandoned(hold, now)
                    self._drop(hold)
                else:
                    log.warning("preemption.in_vain", preemptor=hold.name, phase=hold.phase, nodes=sorted(hold.nodes))
                    self._metrics.preemption(Preemption.IN_VAIN)
                    self._preemptors.ended_in_vain(hold, now)
                    self._drop(hold)
        if self._preemptors.has_taken_over and (left := self._nominations.left_over(now, gated, self._holds)):
            self._start(self._waves.clear(left))
        self._preemptors.unshown.update(now, self._holds)
        self._preemptors.in_vain.update(now, bound)
        self._tell_pause()

    async def choose(self, seconds: float = period) -> None:
        """Phases 2 and 3, for those whose turn it is. seconds: after which no further one begins."""
        due = monotonic() + seconds
        for _ in range(_PER_ROUND):
            preemptor = self._preemptors.next()
            if preemptor is None or not self._is_leader() or monotonic() > due:
                return
            # Until there is a result: an exception must not bring it back at once.
            self._preemptors.later(preemptor)
            with contained(Where.POD, preemptor=preemptor.name):
                await self._choose_for(preemptor)

    async def settle(self) -> None:
        """Wait for the waves in flight."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _choose_for(self, preemptor: WaitingUnit) -> None:
        if self._is_being_placed(preemptor):
            return
        if self._holds.get(preemptor.name) is None and self._planner.has_room_beside(preemptor):
            self._metrics.preemption(Preemption.BESIDE)
            self._holds.changed.emit()
            return
        closed = self._preemptors.closed_for(preemptor)
        found = await _paced(self._search.run(preemptor, closed))
        victims = found.victims
        partial_hold = self._holds.get(preemptor.name)
        if not isinstance(victims, Victims):
            if victims is not None:
                self._metrics.preemption(Preemption.NO_VICTIMS)
                if partial_hold is not None:
                    self._drop(partial_hold)  # what ends there is not enough: it may fit elsewhere
                    return
            self._preemptors.hopeless(preemptor)
            return
        if not victims.pods:
            self._metrics.preemption(Preemption.ENDING)
            if partial_hold is not None:
                partial_hold.is_partial = False
            else:
                self._take_freed(preemptor.name, found, closed)
            return
        bound = self._cache.bound_pods.by_key()
        uids = {key: bound[key].uid for key in victims.pods if key in bound}
        current = self._preemptors.current(preemptor.name)
        if current is None or len(uids) < len(victims.pods) or closed != self._preemptors.closed_for(current):
            return
        earlier = {} if partial_hold is None else {**partial_hold.earlier, **partial_hold.victims}
        hold = _chosen_hold(current, victims, uids, earlier)
        shared = frozenset(key for key in uids if len(found.candidates.pods[key].budgets) > 1)
        wave = Wave(current, hold, victims.violating, shared)
        if not self._still_holds(hold):
            return
        if partial_hold is None and self._preemptors.in_vain.is_paused_for(current.namespace):
            self._metrics.preemption(Preemption.PAUSED)
            self._preemptors.paused(current)
            self._holds.changed.emit()
            return
        self._metrics.preemption(Preemption.VICTIMS)
        self._hold(hold)
        self._start(self._run(wave))

    def _take_freed(self, name: str, found: Found, closed: frozenset[str]) -> None:
        """Hold the place that the search found if victims of others leave it, so that it is chosen once."""
        victims, current = found.victims, self._preemptors.current(name)
        if not isinstance(victims, Victims) or current is None or closed != self._preemptors.closed_for(current):
            return
        if not (left := self._preemptors.unshown.left_on(victims.nodes)):
            return
        bound = self._cache.bound_pods.by_key()
        ending = {key for node in victims.nodes for key in found.candidates.ending.get(node, ()) if key in bound}
        hold = _chosen_hold(current, victims, {}, {**{key: bound[key].uid for key in ending}, **left})
        if not self._still_holds(hold):
            return
        log.info("preemption.takes_freed_room", preemptor=name, nodes=sorted(hold.nodes))
        now = monotonic()
        hold.enter(Phase.ENDING, now)
        hold.update(now, bound)
        self._hold(hold)
        self._start(self._waves.nominate(hold))

    def _hold(self, hold: Hold) -> None:
        for ended in self._preemptors.hold(hold):
            self._clear(ended.members)

    async def _run(self, wave: Wave) -> None:
        hold = wave.hold

        def is_held() -> bool:
            return self._is_leader() and self._holds.get(hold.name) is hold

        # Whoever is cancelled leaves the hold to the next leader.
        try:
            outcome = await self._waves.send(wave, lambda: is_held() and self._still_holds(hold), is_held)
        except Exception:
            self._ended(hold, WaveOutcome.REFUSED)
            raise
        self._ended(hold, outcome)

    def _ended(self, hold: Hold, outcome: WaveOutcome) -> None:
        """A wave has ended like this."""
        if outcome in {WaveOutcome.REFUSED, WaveOutcome.PARTIAL}:
            self._metrics.preemption(Preemption.REFUSED)
        if outcome is WaveOutcome.REFUSED:
            self._preemptors.refused(hold.name)
        if outcome is WaveOutcome.SENT:
            hold.enter(Phase.ENDING, monotonic())
        elif outcome is WaveOutcome.PARTIAL:
            hold.keep_only({**hold.earlier, **hold.victims}, monotonic())
        elif hold.earlier:
            hold.keep_only(hold.earlier, monotonic())  # these end already
        else:
            self._drop(hold)
        self._holds.changed.emit()

    def _still_holds(self, hold: Hold) -> bool:
        """Whether the preemptor still waits and needs exactly the victims to end."""
        current = self._preemptors.current(hold.name)
        if not self._is_leader() or current is None or self._is_being_placed(current):
            return False
        same = {one.key: one.pod.uid for one in current.members} == hold.members
        return same and self._search.still_holds(current, hold.victims, self._preemptors.closed_for(current))

    def _is_being_placed(self, preemptor: WaitingUnit) -> bool:
        return any(self._cache.assumed_node(one.key) is not None for one in preemptor.members)

    def _is_gone(self, key: str, uid: str) -> bool:
        """Whether this incarnation of a pod was deleted, or has ended."""
        bound = self._cache.bound_pods.by_key().get(key)
        return (bound is None or bound.uid != uid) and self._cache.waiting_pod(key, uid) is None

    def _node_of(self, key: str, uid: str) -> str | None:
        """The node that this incarnation of a pod has, or was given."""
        bound = self._cache.bound_pods.by_key().get(key)
        if bound is not None:
            return bound.node if bound.uid == uid else None
        waiting = self._cache.waiting_pod(key, uid)
        allocation = None if waiting is None else assigned_node(waiting)
        return None if allocation is None else allocation.node

    def _tell_pause(self) -> None:
        """Log that no pods are chosen any more, or that they are again."""
        if self._is_paused == self._preemptors.in_vain.is_paused:
            return
        self._is_paused = not self._is_paused
        if self._is_paused:
            log.error("preemption.paused", nodes=sorted(self._preemptors.in_vain.closed)[:_MOST_NAMED])
        else:
            log.info("preemption.resumed")
        self._holds.changed.emit()

    def _drop(self, hold: Hold) -> None:
        """End a hold, and remove its nominations."""
        self._holds.end(hold)
        self._clear(hold.members)

    def _clear(self, keys: Iterable[str]) -> None:
        """Remove the nominations of those of these pods that wait without a hold."""
        if found := without_hold(self._cache.ours.gated(), keys, self._holds):
            self._start(self._waves.clear(found))

    def _asks_else(self, hold: Hold) -> bool:
        """Whether the preemptor has changed since the place was chosen for it, or waits for something else now."""
        current = self._preemptors.current(hold.name)
        return current is None or (bool(hold.asks) and _asks_of(current) != hold.asks)

    def _lacks_room(self, hold: Hold) -> bool:
        current = self._preemptors.current(hold.name)
        return current is not None and not have_room(current.members, hold.places, self._cache)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            with contained(Where.WRITE):
                await work

        task = asyncio.create_task(run(), name="preemption")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _chosen_hold(
    preemptor: WaitingUnit, victims: Victims, uids: Mapping[str, str], earlier: Mapping[str, str] | None = None
) -> Hold:
    """The hold. uids: those of the victims, by namespace/name. earlier: the same of those that end already for it."""
    members = {one.key: one.pod.uid for one in preemptor.members}
    by_name = {one.pod.name: one.key for one in preemptor.members}
    places = {by_name[name]: node for name, node in victims.places if name in by_name}
    if not victims.places:
        places = dict.fromkeys(members, victims.nodes[0])
    nodes = frozenset(victims.nodes)
    name, priority, asks = preemptor.name, preemptor.priority, _asks_of(preemptor)
    return Hold(name, priority, nodes, members, uids, places, earlier=earlier or {}, asks=asks)


def _asks_of(preemptor: WaitingUnit) -> Hashable:
    """What its members ask for: a place is chosen for exactly this."""
    return frozenset((one.key, one.request_signature) for one in preemptor.members)


async def _paced(steps: Steps[Found]) -> Found:
    """The result, with rests in between."""
    clock = WorkClock()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Found = end.value
            return found
        if (worked := clock.seconds()) >= _PART_SECONDS:
            await asyncio.sleep(rest_after(worked))
            clock = WorkClock()


def _uid(raw: Any) -> str | None:
    return None if raw is None else raw["metadata"].get("uid", "")
