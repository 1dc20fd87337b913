"""Assigns nodes to gated pods whenever something changes: a single writer, which sees what it has just assumed.

The planner decides (see `webhook.placing.planner`). This loop says when, and writes and reports what comes of it.

Phases of a cycle:
1. Begin: announce what time alone has changed, and note the state of the cluster.
2. Collect: the pods that only our gate holds back and that are ready (`ReadyPods`), as units: single pods, and the
   members of each gang together. They are sorted by priority (highest first), then age (oldest first), then name.
3. Attempt the units in this order, each with the current state of the cluster. A pod is skipped while it is pending
   (see `pending_pods`). What fits is assumed; its assignment is written in the background (see `assignment_writer`).
   What does not fit reports why, or is ungated (see `failure_handler`).
4. If more units wait than there is time for, attempt the rest in turns by namespace (see `fair_order`).

Life cycle: a term begins -> patches in flight from the last leader are fenced off (see `fence`) -> cycles until the
term ends. While pods are gated, any change (a node, its NUMA nodes, a pod that ends or is created) triggers the next
cycle; all changes during a cycle trigger one more. No cycle runs while the assignments of all of them are being
written. A cycle ends early if too many writes are in flight: the next one begins when some of them have ended, because
a cycle costs time for each gated pod.

A cycle never waits for an answer: owners are read, and assignments written, in parallel. It pauses only to let reviews
run, and pauses do not count as work. An exception affects only its own pod or gang: it waits with the text "internal
error" and is retried with a growing delay (see `retry_delays`), and the cycle continues.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from time import monotonic, time
from typing import Any, Final, NoReturn

from webhook.controllers.owner_chains import OwnerChains
from webhook.controllers.placement.assignment_writer import AssignmentWriter
from webhook.controllers.placement.failure_handler import FailureHandler, UnplacedUngater
from webhook.controllers.placement.fence import fence
from webhook.controllers.placement.pending_pods import PendingPods
from webhook.controllers.placement.shard_moves import ShardMoves
from webhook.controllers.status_reporter import StatusReporter
from webhook.controllers.sweep import WorkClock, call_after, rest_after
from webhook.engine.decide import Decision
from webhook.internal_errors import INTERNAL, Where, contained
from webhook.kube.claim_writes import ClaimWrites
from webhook.kube.election import Term
from webhook.kube.leadership import Leadership
from webhook.kube.owners import ReadOwner
from webhook.kube.pod_writes import PodWrites
from webhook.model.raw import Raw
from webhook.model.shards import DEFAULT_SHARD
from webhook.placing.fair_order import PART_SECONDS, are_equal
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.planner import Attempt, Clocks, Cycle, Limits, Planner, Waits
from webhook.placing.pod.assignment import NoAssignment, why_awaited
from webhook.placing.pod.default_level import DefaultLevels
from webhook.placing.pod.gated_pods import GatedPod, GatedPods, GroupBasis
from webhook.placing.pod.placement_text import waiting as waits
from webhook.placing.pod.wait_reason import WaitReason
from webhook.placing.retry_delays import RetryDelays
from webhook.placing.shard_of_unit import shard_of, shard_of_pod
from webhook.placing.waiting_unit import Unit, members_of, units_of
from webhook.signal import Signal
from webhook.state.cluster_cache import ClusterCache
from webhook.state.devices import PodClaims
from webhook.state.rules import Rules

# kube-controller-manager makes a claim within a second of its pod, some 50 a second in a burst, and after 15 s if its
# own leader was lost. A pod loses nothing by waiting longer: the scheduler does not try it either without its claims.
_CLAIM_SECONDS: Final = 60.0


class AwaitedClaims:
    """The gated pods whose resource claims are not made yet, each since when: they are waited for, but not for ever.

    A claim that arrives wakes the next cycle; `wake_in` is called with the seconds after which that ends by itself.
    An allocation that an earlier placement left is always waited for: the leader itself takes it back.
    """

    def __init__(self, wake_in: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._wake_in = wake_in
        self._clock = clock
        self._since: dict[str, tuple[str, float]] = {}  # the pod's uid and the time

    def is_waiting(self, key: str, claims: PodClaims) -> bool:
        """Whether the pod namespace/name still waits for its claims."""
        if not claims.missing or claims.why_not:
            self._since.pop(key, None)
            return False
        if claims.left_over:
            return True
        now = self._clock()
        uid, since = self._since.get(key, ("", now))
        if uid != claims.pod_uid:
            since = now
            self._since[key] = claims.pod_uid, since
            self._wake_in(_CLAIM_SECONDS)
        return now - since < _CLAIM_SECONDS

    def keep(self, keys: AbstractSet[str]) -> None:
        """Forget all pods but these."""
        if self._since:
            self._since = {key: since for key, since in self._since.items() if key in keys}


class ReadyPods:
    """The gated pods that are ready for an attempt, in order. The others are reported or ungated.

    1. The owners of the gated pods are read in the background. A pod takes their annotations as soon as they are known
       (see `webhook.controllers.owner_chains`), and waits until then.
    2. So it is with a PodGroup of Kubernetes itself (see `NativeRequest`).
    3. A pod that is not managed, and one that requests nothing although its owners are known, is ungated.
    4. A pod that cannot be parsed waits and reports the fault.
    5. A single pod whose assignment is being written is left out.
    6. A pod whose resource claims do not exist yet waits for them, but not for ever (see `AwaitedClaims`).
    7. All others are ready.

    A fault with one pod affects only that pod.
    """

    def __init__(
        self,
        cache: ClusterCache,
        pods: GatedPods,
        owner_chains: OwnerChains,
        pending: PendingPods,
        failures: FailureHandler,
        awaited: AwaitedClaims,
    ) -> None:
        self._awaited = awaited
        self._cache = cache
        self._pods = pods
        self._owner_chains = owner_chains
        self._pending = pending
        self._failures = failures

    async def of(self, gated: Mapping[str, Raw], cycle: Cycle, work: WorkClock) -> list[GatedPod]:
        """The ready ones of these gated pods (by namespace/name), in order. Reviews may run meanwhile."""
        cluster = self._cache.snapshot()
        self._owner_chains.read_again(await work.result_of(self._pods.update(gated, DefaultLevels.of(cluster))))
        groups = self._cache.native_groups.served()
        self._owner_chains.want(self._pods.owners())
        self._pods.take(self._owner_chains.get, partial(GroupBasis.of, groups, cluster.topologies))
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
                if self._is_ready(pod, cycle) and self._has_claims(
                    claiming := pod.avoiding(avoided).claiming(self._cache.devices), cycle
                ):
                    ready.append(claiming)
        self._awaited.keep(gated.keys())
        return ready

    def _has_claims(self, gated: GatedPod, cycle: Cycle) -> bool:
        """Whether its claims are there, or it goes without a look at them."""
        if gated.claims is None or not self._awaited.is_waiting(gated.key, gated.claims):
            return True
        if not self._pending.has(gated.key, gated.pod.uid):
            self._failures.unassigned(Waits(gated, why_awaited(gated)), cycle)
        return False

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


# Combines changes that come together (a pod's end, its node's NRT): a cycle costs a decision per pod signature.
_COALESCE_SECONDS: Final = 0.02
# Pods per cycle. Then the pods are sorted again: a new pod of high priority waits for at most this many.
_PER_CYCLE: Final = 256
_CLOCK_SECONDS: Final = 1.0
# Equal pods between two pauses. After the first one, a pod takes some 0.3 ms.
_EQUAL_PER_TURN: Final = 16

Background = Callable[[], Coroutine[Any, Any, NoReturn]]
"""A task that runs until cancelled."""


@dataclass(slots=True)
class _Run:
    """A cycle on its way."""

    cycle: Cycle
    work: WorkClock
    terms: int
    """The version of the terms when it began. It does not go on with others, of which no hold is known yet."""
    assigned: int = 0
    """Pods assigned so far."""
    seconds_in_vain: float = 0.0
    """Seconds of work that led to no assignment."""


class PlacementController:
    """Assigns nodes to gated pods, on the leader."""

    def __init__(  # noqa: PLR0913 # all but the last are its parts
        self,
        cache: ClusterCache,
        writes: PodWrites,
        status_reporter: StatusReporter,
        rules: Rules,
        limits: Limits,
        leadership: Leadership,
        read_owner: ReadOwner,
        *,
        claim_writes: ClaimWrites,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """clock: seconds; measures the work of a cycle, which is bounded."""
        self._clock = clock
        self.gang_examined = Signal[[GatedGang, str]]()
        """Emitted for each gang that was examined, with the reason why its members wait; empty if they do not."""
        self.planner = Planner(cache, rules, limits, Clocks(monotonic, time), self._wake_in)
        """What decides."""
        self.planner.preemptors.holds.changed.subscribe(self._changed)
        self.planner.lacking_room.changed.subscribe(self._changed)
        self._cache = cache
        self._writes = writes
        self._status_reporter = status_reporter
        self._metrics = status_reporter.metrics
        self._limits = limits
        self._leadership = leadership
        self._term: Term | None = None
        """The term in which cycles run: one of `_terms`."""
        self._terms: dict[str, Term] = {}
        """Shard -> its term that goes on."""
        self._terms_version = 0
        """Grows with each term that begins or ends."""
        self._fenced: dict[str, Term] = {}
        """Shard -> the term in which no patch of an earlier leader can ungate a pod of it any more."""
        self._fencing: dict[str, asyncio.Task[None]] = {}
        self._of_shards: dict[str, set[str]] = {}
        """Shard -> the pods (namespace/name) that wait in it, as of the last cycle."""
        self._waits_for_nodes = False
        self._wake = asyncio.Event()
        self._is_idle = False
        """Whether the last cycle left no gated pod."""
        self._owner_chains = OwnerChains(read_owner, self._changed)
        self._delays = RetryDelays(self._wake_in, monotonic)
        self._writer = AssignmentWriter(cache, writes, claim_writes, self._may_assign_to, limits.assume_ttl)
        self._pending = PendingPods(
            cache, self._writer, status_reporter, self._delays, limits.concurrency, self._changed
        )
        self._moves = ShardMoves(cache, writes, self._may_write, self._changed, self._wake_in)
        ungater = UnplacedUngater(cache, writes, status_reporter, rules, self._may_write)
        self._failures = FailureHandler(
            self._pending, ungater, status_reporter, self.gang_examined, self.planner, limits.ungate_after
        )
        pods = GatedPods(rules, self._delays)
        awaited = AwaitedClaims(self._wake_in, monotonic)
        self._ready = ReadyPods(cache, pods, self._owner_chains, self._pending, self._failures, awaited)
        cache.changed.subscribe(self._changed)

    def started(self, term: Term, shard: str = DEFAULT_SHARD) -> None:
        """Start cycles for this term."""
        self.planner.began_term()
        self._terms[shard] = self._term = term
        self._terms_version += 1
        self._of_shards.pop(shard, None)  # the last leader knew pods that came since
        self._is_idle = False
        self._changed()

    def stopped(self, shard: str = DEFAULT_SHARD) -> None:
        """End the cycles for this shard: we no longer lead it."""
        self._terms.pop(shard, None)
        self._fenced.pop(shard, None)
        self._terms_version += 1
        if (task := self._fencing.pop(shard, None)) is not None:
            task.cancel()
        if self._cache.shards.label:
            self._cache.shards.work_on(frozenset(self._fenced))
        self._term = next(iter(self._terms.values()), None)
        if self._term is None:
            self.planner.ended_term()
        else:
            self.planner.began_term()
            self._changed()

    def has_fenced(self) -> bool:
        """Whether we lead, and no patch of an earlier leader can ungate a pod of ours any more."""
        return self._terms.keys() == self._fenced.keys() and self._may_write()

    def waiting_by_shard(self) -> Mapping[str, int]:
        """How many pods wait in each shard that we work on, as of the last cycle."""
        return {shard: len(self._of_shards.get(shard, ())) for shard in self._fenced}

    def is_in_burst(self) -> bool:
        """Whether many pods get their nodes at once."""
        return self._pending.is_burst

    async def settle(self, shard: str | None = None) -> None:
        """Wait for the patches in flight. Those of a shard are assumed until an object shows them."""
        if shard is None:
            await self._pending.settle()

    def background(self) -> Iterator[Background]:
        """Tasks to run as long as the process does; each ends by cancellation or an exception, and can be restarted."""
        yield self.run
        yield self._status_reporter.run
        yield self._owner_chains.run
        if self._limits.ungate_after:
            yield self._wake_regularly

    async def run(self) -> NoReturn:
        """Assign pods while we lead, until cancelled."""
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._term is None or not await self._settle_terms():
                    continue
                if self._has_nothing_to_do():
                    continue
                in_vain = await self._cycle()
                # No pause after the last pod: the next one would wait for its end.
                self._is_idle = not self._cache.gated_pods()
                if not self._is_idle:
                    await asyncio.sleep(max(_COALESCE_SECONDS, rest_after(in_vain)))
                    await self._pending.wait_for_room()
        except asyncio.CancelledError:
            self._pending.cancel()
            self._moves.cancel()
            for task in self._fencing.values():
                task.cancel()
            raise

    async def _settle_terms(self) -> bool:
        """Fence each term that has begun; False if there is none left, or the next cycle is to wait.

        With shards, cycles go on in the others meanwhile. The first one only finds out whose pod is whose.
        """
        unfenced = [(shard, term) for shard, term in self._terms.items() if self._fenced.get(shard) is not term]
        for shard, term in unfenced:
            if self._leadership.seconds_until_settled(shard) <= 0:
                self._fenced[shard] = term
            elif not self._cache.shards.label:
                if not await self._fence(shard, term):
                    return False
                self._fenced[shard] = term
            elif shard in self._of_shards and shard not in self._fencing:
                self._fencing[shard] = asyncio.create_task(self._fence_beside(shard, term))
        if self._cache.shards.label and self._cache.shards.work_on(frozenset(self._fenced)):
            self.planner.began_term()
            self.planner.changed()
        return bool(self._terms)

    async def _fence_beside(self, shard: str, term: Term) -> None:
        """Fence a shard while cycles go on in others."""
        with contained(Where.TASK, shard=shard):
            if await self._fence(shard, term) and self._terms.get(shard) is term:
                self._fenced[shard] = term
        self._fencing.pop(shard, None)
        self._changed()

    def _has_nothing_to_do(self) -> bool:
        """Whether no pod waits for a cycle. Most changes are of pods that wait for nothing."""
        gated = self._cache.gated_pods()
        if not gated:
            return self._is_idle
        # In a burst that is usual, and each end of a write and each binding is a change.
        return gated.keys() <= self._pending.being_written

    async def _fence(self, shard: str, term: Term) -> bool:
        """Fence off the last leader's patches in flight; False if the term ended before that was done."""

        def goes_on() -> bool:
            return self._terms.get(shard) is term and self._leadership.is_leader(shard)

        def is_needed() -> bool:
            # Once the last leader's writes are settled, a pod that cannot be written no longer delays the others.
            return goes_on() and self._leadership.seconds_until_settled(shard) > 0

        def gated() -> Mapping[str, Raw]:
            pods = self._cache.gated_pods()
            if not self._cache.shards.label:
                return pods
            return {key: pods[key] for key in self._of_shards.get(shard, ()) if key in pods}

        await fence(gated, self._writes, term.name, is_needed, self._limits.concurrency)
        return goes_on()

    async def _cycle(self) -> float:
        """One cycle; returns the seconds of work that led to no assignment."""
        run = self._begin()
        units = await self._collect(run)
        later = await self._attempt_each(units, run)
        later = await self._attempt_each(self.planner.by_namespace(later), run)
        if later:
            self._wake.set()  # not a change: units that failed since the last change are not retried
        return run.seconds_in_vain

    def _begin(self) -> _Run:
        """Phase 1."""
        self._metrics.cycle()
        self._cache.advance()
        return _Run(self.planner.begin(), WorkClock(self._clock), self._terms_version)

    async def _collect(self, run: _Run) -> list[Unit]:
        """Phase 2; forgets what it remembers of pods and gangs that no longer wait."""
        gated = dict(self._cache.gated_pods())  # as it is now: others arrive meanwhile
        self._status_reporter.keep(set(gated))
        units = self._ours_of(units_of(await self._ready.of(gated, run.cycle, run.work)), gated)
        groups = {unit.membership.group for unit in units if isinstance(unit, GatedGang)}
        self._delays.keep({raw["metadata"].get("uid", "") for raw in gated.values()} | groups)
        self.planner.collected(units)
        run.seconds_in_vain = run.work.seconds()
        return units

    def _ours_of(self, units: list[Unit], gated: Mapping[str, Raw]) -> list[Unit]:
        """The units that wait in the shards that we work on. Notes which pods and gangs these are."""
        shards = self._cache.shards
        if not shards.label:
            return units
        self._moves.keep(units)
        if (seconds := shards.seconds_until_opened) is not None and not self._waits_for_nodes:
            self._waits_for_nodes = True
            call_after(seconds, self._nodes_opened)
        of_shards: dict[str, set[str]] = {shard: set() for shard in (DEFAULT_SHARD, *shards.known)}
        alone, gangs, ours = gated.keys() - self._pending.being_written, dict[str, bool](), list[Unit]()
        for unit in units:
            shard = shard_of(unit, self._cache)
            keys = {one.key for one in members_of(unit)}
            of_shards[shard] |= keys
            alone -= keys
            is_ours = shard in shards.worked_on and not self._moves.is_moving(unit)
            if isinstance(unit, GatedGang):
                gangs[unit.membership.group] = is_ours
            if is_ours:
                ours.append(unit)
        for key in alone:
            of_shards[shard_of_pod(gated[key], shards)].add(key)
        self._of_shards = of_shards
        if self._terms.keys() - self._fenced.keys() - self._fencing.keys():
            self._wake.set()  # it is known now whose pods are to be fenced
        waiting = {key for shard, keys in of_shards.items() if shard in shards.worked_on for key in keys}
        self._cache.ours.collected(waiting | self._pending.being_written, gangs)
        return ours

    def _nodes_opened(self) -> None:
        """Nodes that have changed their shard may be assigned pods now."""
        self._waits_for_nodes = False
        self._changed()

    async def _attempt_each(self, units: Sequence[Unit], run: _Run) -> list[Unit]:
        """Phases 3 and 4, for one part of the time; returns the units that were not reached, if the cycle goes on."""
        later: list[Unit] = []
        in_vain, alike = 0.0, 0
        for unit, following in zip_longest(units, units[1:]):
            if run.terms != self._terms_version or not self._may_write() or self._pending.full:
                return []
            if run.assigned >= _PER_CYCLE:
                self._wake.set()
                return []
            if in_vain >= PART_SECONDS and self._needs_decision(unit, run.cycle):
                later.append(unit)
                continue
            in_vain += await self._attempt(unit, run)
            # A pause ends what equal pods have in common: others change the cluster.
            alike = alike + 1 if are_equal(unit, following) else 0
            if alike % _EQUAL_PER_TURN == 0:
                await run.work.pause_after_a_turn()  # let reviews run
        return later

    def _needs_decision(self, unit: Unit, cycle: Cycle) -> bool:
        """Whether an attempt would cost a decision: its result is not known yet."""
        if isinstance(unit, GatedGang):
            return not self.planner.gang_is_known(unit, cycle)
        return self._known(unit, cycle) is None and not self._pending.has(unit.key, unit.pod.uid)

    async def _attempt(self, unit: Unit, run: _Run) -> float:
        """Attempt a unit; returns the seconds of work that led to nothing. An exception affects only this unit."""
        began = run.work.seconds()
        assigned = 0
        try:
            if isinstance(unit, GatedGang):
                attempt = await self._attempt_gang(unit, run)
            else:
                attempt = self._attempt_pod(unit, run)
            assigned = self._carry_out(attempt, run.cycle)
            self._move(unit, attempt)
        except Exception as error:  # noqa: BLE001 # whatever it is, the other units continue
            self._failures.internal_error(unit, error, run.cycle)
            if isinstance(unit, GatedGang):
                self.planner.keep_reserved(unit, run.cycle)
        run.assigned += assigned
        in_vain = 0.0 if assigned else run.work.seconds() - began
        run.seconds_in_vain += in_vain
        return in_vain

    def _attempt_pod(self, gated: GatedPod, run: _Run) -> Attempt:
        if self._pending.has(gated.key, gated.pod.uid):
            return Attempt()
        began = run.work.seconds()
        attempt = self.planner.attempt_pod(gated, run.cycle, self._known(gated, run.cycle))
        if attempt.is_decided:
            self._metrics.decided("pod", run.work.seconds() - began)
        return attempt

    def _known(self, gated: GatedPod, cycle: Cycle) -> Decision | NoAssignment | None:
        """The pod's result without a decision. That of an earlier cycle does only if it was reported of this pod."""
        known = self.planner.known(gated, cycle)
        if isinstance(known, NoAssignment) and known.reason == WaitReason.PENDING:
            return None if self._failures.is_news(gated, known.kind) else known
        return known

    async def _attempt_gang(self, gang: GatedGang, run: _Run) -> Attempt:
        waiting = tuple(one for one in gang.members if not self._pending.has(one.key, one.pod.uid))
        if not waiting or self._failures.is_delayed(gang):
            self.planner.keep_reserved(gang, run.cycle)
            return Attempt()
        began = run.work.seconds()
        looks = self._moves.looks_elsewhere
        attempt = await self.planner.attempt_gang(gang, waiting, run.cycle, run.work.pause, looks)
        if attempt.is_decided:
            self._failures.no_error(gang)
            self._metrics.decided("gang", run.work.seconds() - began)
        return attempt

    def _carry_out(self, attempt: Attempt, cycle: Cycle) -> int:
        """Write what was assumed, and report what waits; returns how many pods were assumed."""
        for assumed in attempt.assumed:
            self._pending.assign(*assumed)
        if attempt.examined is not None:
            self.gang_examined.emit(attempt.examined, attempt.why)
        for one in attempt.waits:
            self._failures.unassigned(one, cycle)
        return len(attempt.assumed)

    def _move(self, unit: Unit, attempt: Attempt) -> None:
        """Send a unit that gets no node of ours to the shard that has room for it."""
        for one in attempt.waits:
            if isinstance(one.result, NoAssignment) and one.result.fits_in is not None:
                self._moves.move(unit, one.result.fits_in)
                return

    async def _wake_regularly(self) -> NoReturn:
        while True:
            await asyncio.sleep(_CLOCK_SECONDS)
            self._changed()

    def _wake_in(self, seconds: float) -> None:
        call_after(seconds, self._changed)

    def _changed(self) -> None:
        """Request another cycle, because something changed."""
        self.planner.changed()
        self._wake.set()

    def _may_write(self) -> bool:
        return any(self._leadership.is_leader(shard) for shard in self._terms)

    def _may_assign_to(self, node: str) -> bool:
        """Whether we still lead the shard of a node: check right before each write."""
        shard = self._cache.shards.of(node)
        return shard in self._terms and self._leadership.is_leader(shard)
