"""Assigns nodes to gated pods whenever something changes: a single writer, which sees what it has just assumed.

Life cycle: a term begins -> patches in flight from the last leader are fenced off -> rounds until the term ends. Any
change (a node, its NUMA nodes, a pod that ends or is created) triggers the next round; all changes during a round
trigger one more.

A round:
1. The pods that only our gate holds back are sorted by priority (highest first), then age (oldest first), then name.
   The members of a gang are one unit (see `gated_gang`): all that must start together are assigned at once, or none.
2. Each unit is decided on with the current state of the cluster, with assumed pods subtracted.
3. A pod that fits is assumed at once, and its assignment is written in the background (see `assignment_writer`,
   `writes_in_flight`). If too many writes are in flight, the round ends; the end of each triggers another round.
4. If a pod does not fit, or other pods must be bound first (see `assignment`), no other pod of the same signature is
   tried: free resources never grow within a round. Smaller pods are tried: a pod that waits for a rare resource does
   not block the others. But the domain of a gang that has waited long is reserved, if that is enabled: later units get
   nothing there.
5. A pod that no node could take even if it were empty is ungated without an assignment. So is one that has waited too
   long, if that is enabled.
6. If more units wait than there is time for, the order applies to the first part of the time; then every namespace gets
   its share (see `fair_order`).

A round never waits for an answer: owners are read, and assignments written, in parallel (see
`webhook.controllers.owner_chains`, `assignment_writer`). It pauses only to let reviews run, and pauses do not count as
work. An exception affects only its own pod or gang: it waits with the text "internal error" and is retried with a
growing delay (see `retry_delays`), and the round continues.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, Final, NoReturn

import structlog

from webhook.admission.pod.placement_text import shortened
from webhook.admission.pod.placement_text import waiting as waits
from webhook.cache.cluster_cache import ClusterCache
from webhook.controllers.owner_chains import OwnerChains
from webhook.controllers.placement.assignment import Assignment, NoAssignment, find_assignment, why_unassigned, without
from webhook.controllers.placement.assignment_writer import AssignmentWriter
from webhook.controllers.placement.fair_order import PART_SECONDS, Turns, Unit, name_of
from webhook.controllers.placement.fence import fence
from webhook.controllers.placement.gang_agreement import agree
from webhook.controllers.placement.gated_gang import Gang, GangAssigner, units_of
from webhook.controllers.placement.gated_pods import ASKS_FOR_NOTHING, GatedPod, GatedPods, seconds_waited
from webhook.controllers.placement.limits import Limits
from webhook.controllers.placement.retry_delays import RetryDelays
from webhook.controllers.placement.round_clock import Work
from webhook.controllers.placement.ungate_unplaced import UnplacedUngater
from webhook.controllers.placement.writes_in_flight import WritesInFlight
from webhook.controllers.status_reporter import StatusReporter
from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.decide import Decision
from webhook.internal_errors import INTERNAL, Where, contained, internal_error
from webhook.kube.election import Term
from webhook.kube.leadership import Leadership
from webhook.kube.owners import ReadOwner
from webhook.kube.pod_writes import Outcome, PodWrites
from webhook.model.membership import AssignedMember, controllers_group, wishes_of
from webhook.model.names import POD_GROUP_NAME
from webhook.model.rules import Rules
from webhook.signal import Signal

log = structlog.get_logger(__name__)

# Combines changes that come together (a pod's end, its node's NRT): a round costs a decision per pod signature.
_COALESCE_SECONDS: Final = 0.02
# Seconds of rest per second of work. Reviews need the event loop: while every pod waits, rounds take at most a fifth of
# its time.
_REST_PER_WORK: Final = 4.0
# Pods per round. Then the pods are sorted again: a new pod of high priority waits for at most this many.
_PER_ROUND: Final = 256
_CLOCK_SECONDS: Final = 1.0

Background = Callable[[], Coroutine[Any, Any, NoReturn]]
"""A task that runs until cancelled."""


class PlacementController:
    """Assigns nodes to gated pods, on the leader."""

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        status_reporter: StatusReporter,
        rules: Rules,
        limits: Limits,
        leadership: Leadership,
        read_owner: ReadOwner,
    ) -> None:
        self.clock: Callable[[], float] = monotonic
        """Seconds; measures the work of a round, which is bounded."""
        self._cache = cache
        self._writes = writes
        self._status_reporter = status_reporter
        self._rules = rules
        self._limits = limits
        self._leadership = leadership
        self._writer = AssignmentWriter(cache, writes, self._may_write, limits.assume_ttl)
        self._gangs = GangAssigner(cache, self._writer, rules, limits.reserve_after)
        self._ungater = UnplacedUngater(cache, writes, status_reporter, rules, self._may_write)
        self._metrics = status_reporter.metrics
        self._delays = RetryDelays(self._wake_in)
        self._pods = GatedPods(rules, self._delays)
        self.gang_examined = Signal[[Gang, str]]()
        """Emitted for each gang that was examined, with the reason why its members wait; empty if they do not."""
        self._term: Term | None = None
        self._fenced: Term | None = None
        self._wake = asyncio.Event()
        self._owner_chains = OwnerChains(read_owner, self._changed)
        self._reserved_nodes: frozenset[str] = frozenset()
        self._turns = Turns()
        self._changes = 0
        self._as_of: tuple[tuple[int, int], int] = (0, 0), 0
        self._writing = WritesInFlight(limits.concurrency, self._written, self._write_failed)
        # Separate from the assignments: a user who creates thousands of unmanaged pods must not delay those.
        self._ungating = WritesInFlight(max(1, limits.concurrency // 4), self._written, self._write_failed)
        cache.changed.subscribe(self._changed)

    def started(self, term: Term) -> None:
        """Start rounds for this term."""
        self._term = term
        self._changed()

    def stopped(self) -> None:
        """End the rounds: we no longer lead."""
        self._term = None

    async def settle(self) -> None:
        """Wait for the patches in flight."""
        await self._writing.settle()
        await self._ungating.settle()

    def background(self) -> Iterator[Background]:
        """Tasks to run as long as the process does; each ends by cancellation or an exception, and can be restarted."""
        yield self.run
        yield self._status_reporter.run
        yield self._owner_chains.run
        if self._limits.ungate_after or self._limits.reserve_after:
            yield self._wake_regularly

    async def run(self) -> NoReturn:
        """Assign pods while we lead, until cancelled."""
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                term = self._term
                if term is None:
                    continue
                if self._fenced is not term:
                    if self._leadership.seconds_until_settled() > 0 and not await self._fence(term):
                        continue
                    self._fenced = term
                worked = await self._round()
                await asyncio.sleep(max(_COALESCE_SECONDS, worked * _REST_PER_WORK))
        except asyncio.CancelledError:
            self._writing.cancel()
            self._ungating.cancel()
            raise

    async def _wake_regularly(self) -> NoReturn:
        while True:
            await asyncio.sleep(_CLOCK_SECONDS)
            self._changed()

    def _wake_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._changed)

    def _changed(self) -> None:
        """Request another round, because something changed."""
        self._changes += 1
        self._wake.set()

    def _may_write(self) -> bool:
        return self._term is not None and self._leadership.is_leader()

    async def _fence(self, term: Term) -> bool:
        """Fence off the last leader's patches in flight; False if the term ended before that was done."""

        def goes_on() -> bool:
            return self._term is term and self._leadership.is_leader()

        def is_needed() -> bool:
            # Once the last leader's writes are settled, a pod that cannot be written no longer delays the others.
            return goes_on() and self._leadership.seconds_until_settled() > 0

        await fence(self._cache.gated_pods, self._writes, term.name, is_needed, self._limits.concurrency)
        return goes_on()

    async def _round(self) -> float:
        """One round; returns the seconds of work that led to no assignment."""
        self._metrics.round()
        self._cache.advance()
        work = Work(self.clock)
        gated = self._cache.gated_pods()
        self._pods.update(gated)
        self._status_reporter.keep(set(gated))
        self._reserved_nodes = frozenset()
        nowhere_to_go: dict[str, Decision | NoAssignment] = {}
        units = units_of(self._to_assign())
        groups = {unit.membership.group for unit in units if isinstance(unit, Gang)}
        self._gangs.keep(groups)
        self._delays.keep({raw["metadata"].get("uid", "") for raw in gated.values()} | groups)
        self._turns.begin(units)
        self._as_of = self._cache.snapshot().nodes.version, self._changes
        given, worked = 0, work.seconds()
        for _ in ("in order", "every namespace"):
            later: list[Unit] = []
            vain = 0.0
            for unit in units:
                if not self._may_write() or self._writing.full:
                    return worked
                if given >= _PER_ROUND:
                    self._wake.set()
                    return worked
                if vain >= PART_SECONDS and self._is_open(unit, nowhere_to_go):
                    later.append(unit)
                    continue
                began = work.seconds()
                taken = await self._assign(unit, nowhere_to_go, work)
                given += taken
                took = 0.0 if taken else work.seconds() - began
                vain, worked = vain + took, worked + took
                await work.pause()  # let reviews run
            units = self._turns.shared(later)
        if units:
            self._wake.set()  # not a change: units that failed since the last change are not retried
        return worked

    async def _assign(self, unit: Unit, nowhere_to_go: dict[str, Decision | NoAssignment], work: Work) -> int:
        """Assign a unit; returns how many pods were assigned. An exception affects only this unit."""
        try:
            if isinstance(unit, Gang):
                return await self._assign_gang(unit, work)
            return self._assign_pod(unit, nowhere_to_go)
        except Exception as error:  # noqa: BLE001 # whatever it is, the other units continue
            self._failed(unit, error)
            return 0

    def _is_open(self, unit: Unit, nowhere_to_go: Mapping[str, Decision | NoAssignment]) -> bool:
        """Whether the unit needs a decision. The nodes reserved for a postponed unit stay reserved."""
        failed = self._turns.of(unit)
        if failed is not None:
            self._reserved_nodes |= failed.reserved_nodes
        if isinstance(unit, Gang):
            return failed is None or failed.basis != self._basis_of(unit)
        return not (
            name_of(unit) in nowhere_to_go or self._has_failed(unit) or self._is_looked_after(unit.key, unit.pod.uid)
        )

    def _basis_of(self, unit: Unit) -> Hashable:
        """What the result depends on. For a gang that is more than nodes and assumed pods, so any change counts."""
        version, changes = self._as_of
        return changes if isinstance(unit, Gang) else (version, self._reserved_nodes)

    def _has_failed(self, gated: GatedPod) -> bool:
        """Whether the pod's signature failed, nothing has changed since, and the reason was reported of this pod."""
        failed = self._turns.of(gated)
        if failed is None or failed.basis != self._basis_of(gated):
            return False
        return not self._status_reporter.news(gated.raw, failed.kind)

    def _to_assign(self) -> list[GatedPod]:
        """The pods that request something, in order, with the annotations that they take from their owners."""
        self._owner_chains.want(self._pods.owners())
        self._pods.take(self._owner_chains.get)
        for key, (raw, why) in self._pods.unmanaged.items():
            with contained(Where.POD, pod=key):
                self._ungate(key, raw, partial(self._ungater.unasked, key, raw, why))
        for key, (raw, why) in self._pods.faults.items():
            with contained(Where.POD, pod=key):
                if not self._is_looked_after(key, raw["metadata"].get("uid", "")) or why.startswith(INTERNAL):
                    self._waits_unread(key, raw, why)
        to_assign = []
        for gated in self._pods.in_order():
            with contained(Where.POD, pod=gated.key):
                if self._is_to_be_assigned(gated):
                    to_assign.append(gated)
        return to_assign

    def _is_to_be_assigned(self, gated: GatedPod) -> bool:
        """Whether its owners are known, and it or they request something; if not, the report or ungating is started."""
        owner = gated.owner
        if owner and (why := self._owner_chains.why_not(gated.pod.namespace, owner)):
            if not self._is_looked_after(gated.key, gated.pod.uid):
                self._waits(gated, NoAssignment(frozenset({"owner", why}), waits(f"its owners: {why}")), {})
            return False
        if not gated.asks:
            unasked = partial(self._ungater.unasked, gated.key, gated.raw, ASKS_FOR_NOTHING)
            self._ungate(gated.key, gated.raw, unasked)
        return gated.asks

    def _assign_pod(self, gated: GatedPod, nowhere_to_go: dict[str, Decision | NoAssignment]) -> int:
        """Assign a pod; returns 1 if it was assigned. nowhere_to_go: this round's failed signatures and results."""
        if self._is_looked_after(gated.key, gated.pod.uid):
            return 0
        known = nowhere_to_go.get(gated.request_signature)
        if known is None and (failed := self._turns.of(gated)) is not None and self._has_failed(gated):
            known = NoAssignment(failed.kind, "")  # reported before
        if known is not None:
            self._waits(gated, known, nowhere_to_go)
            return 0
        if self._cache.gated_pods().get(gated.key) is not gated.raw:
            return 0  # its change triggers another round
        began = monotonic()
        snapshot = self._cache.snapshot().nodes
        # Not the basis at the round's start: reservations of this round may end before the next one, which would then
        # see the same version.
        basis = snapshot.version, self._reserved_nodes
        found = find_assignment(without(snapshot, self._reserved_nodes), gated, self._rules, self._cache.assigned)
        self._metrics.decided("pod", monotonic() - began)
        if isinstance(found, Assignment):
            self._give(gated, found, self._writer.assume(gated, found))
            return 1
        nowhere_to_go[gated.request_signature] = found
        self._waits(gated, found, nowhere_to_go)
        if isinstance(found, NoAssignment) and found.awaits_node:
            return 0  # if it cannot be ungated now, the next round checks it again
        kind = found.kind if isinstance(found, NoAssignment) else frozenset(found.excluded)
        self._turns.failed(gated, basis, kind)
        return 0

    async def _assign_gang(self, gang: Gang, work: Work) -> int:
        """Assign the waiting members of a gang; returns how many were assigned."""
        group = gang.membership.group
        waiting = tuple(one for one in gang.members if not self._is_looked_after(one.key, one.pod.uid))
        if not waiting or self._delays.is_put_off(group):
            return 0
        failed = self._turns.of(gang)
        if failed is not None and failed.basis == self._basis_of(gang):
            self._reserved_nodes |= failed.reserved_nodes
            return 0
        gated = self._cache.gated_pods()
        if any(gated.get(one.key) is not one.raw for one in waiting):
            return 0  # its change triggers another round
        began = work.seconds()
        agreed = agree(self._without_assumed(gang), self._assigned_members(gang), self._cache.snapshot().topologies)
        for one in waiting:
            if (why := agreed.odd.get(one.key)) is not None:
                self._waits(one, why, {})
        keys = {one.key for one in waiting}
        together = replace(gang, members=tuple(one for one in agreed.gang.members if one.key in keys))
        if not together.members:
            return 0
        found = await self._gangs.assign(
            together, agreed.minimum, agreed.assigned_members, self._reserved_nodes, work.pause
        )
        self._delays.succeeded(group)
        self._metrics.decided("group", work.seconds() - began)
        self.gang_examined.emit(together, found.text if isinstance(found, NoAssignment) else "")
        if isinstance(found, NoAssignment):
            self._turns.failed(gang, self._basis_of(gang), found.kind, found.reserved_nodes)
            self._reserved_nodes |= found.reserved_nodes
            for one in together.members:
                self._waits(one, found, {})
            return 0
        for one, assignment, assumed_pod in found:
            self._give(one, assignment, assumed_pod)
        return len(found)

    def _without_assumed(self, gang: Gang) -> Gang:
        """The gang without members that are assumed: their assignment is being written."""
        return replace(gang, members=tuple(one for one in gang.members if not self._cache.assumed_node(one.key)))

    def _assigned_members(self, gang: Gang) -> dict[str, AssignedMember]:
        """The members that are assigned or assumed, by namespace/name."""
        assumed = {
            one.key: AssignedMember(node, None, wishes_of(one.pod.annotations), assigned=True)
            for one in gang.members
            if (node := self._cache.assumed_node(one.key)) is not None
        }
        # A pod that was bound while no replica answered counts with the request that the others take from the same
        # owner.
        of_owners = {one.owner.uid: one for one in gang.members if one.owner is not None and one.in_group_of_its_top}
        unasked = {
            key: replace(seat, wishes=wishes_of(one.pod.annotations))
            for uid, one in of_owners.items()
            for key, seat in self._cache.gangs.unasked(controllers_group(one.pod.namespace, uid)).items()
        }
        return unasked | assumed | dict(self._cache.gangs.assigned(gang.membership.group))

    def _failed(self, unit: GatedPod | Gang, error: Exception) -> None:
        """Handle an internal error with a unit: it waits, reports the error, and is retried later."""
        if isinstance(unit, Gang):
            self._delays.failed(unit.membership.group)
            found = _at_fault(internal_error(Where.GANG, error, gang=unit.membership.group))
            self.gang_examined.emit(unit, found.text)
        else:
            self._delays.failed(unit.pod.uid)
            found = _at_fault(internal_error(Where.POD, error, pod=unit.key))
        for one in unit.members if isinstance(unit, Gang) else (unit,):
            with contained(Where.POD, pod=one.key):
                self._waits(one, found, {})

    def _is_looked_after(self, key: str, uid: str) -> bool:
        return (
            key in self._writing
            or key in self._ungating
            or self._delays.is_put_off(uid)
            or self._cache.assumed_node(key) is not None
        )

    def _give(self, gated: GatedPod, assignment: Assignment, assumed_pod: AssumedPod) -> None:
        """Write the assignment of an assumed pod in the background, with the annotations taken from its owners."""
        assignment = replace(assignment, annotations={**gated.taken, **assignment.annotations})

        async def write() -> bool:
            outcome = await self._writer.write(gated, assignment, assumed_pod)
            if outcome is Outcome.WRITTEN:
                self._status_reporter.assigned(gated, assignment)
                log.info("pod.assigned", pod=gated.key, node=assignment.hint.node)
            elif outcome is Outcome.REFUSED:
                self._refused(gated, self._writes.error)  # nothing was awaited since the rejection
            return outcome in {Outcome.WRITTEN, Outcome.STALE, Outcome.GONE}

        self._writing.start(gated.key, gated.pod.uid, write)

    def _refused(self, gated: GatedPod, error: str) -> None:
        """Report that the API server rejects the assignment: a policy of the cluster, or an object at a size limit."""
        text = shortened(waits(f"it fits, but its placement cannot be written: {error}"))
        why = NoAssignment(frozenset({Outcome.REFUSED}), text)
        if self._status_reporter.news(gated.raw, why.kind):
            self._status_reporter.waits(gated.raw, why)

    def _waits(
        self, gated: GatedPod, known: Decision | NoAssignment, shapes: dict[str, Decision | NoAssignment]
    ) -> None:
        """Report that the pod fits nowhere. The text is computed once per signature, and only if it is new."""
        if isinstance(known, NoAssignment) and known.awaits_node:
            self._ungate(gated.key, gated.raw, partial(self._ungater.until_a_node_is_added, gated))
            return
        if 0 < self._limits.ungate_after <= seconds_waited(gated.raw):
            self._ungate(gated.key, gated.raw, partial(self._ungater.after_waiting, gated, self._limits.ungate_after))
            return
        kind = known.kind if isinstance(known, NoAssignment) else frozenset(known.excluded)
        if not self._status_reporter.news(gated.raw, kind):
            return
        if isinstance(known, Decision):
            known = shapes[gated.request_signature] = why_unassigned(
                known, gated, self._rules, len(self._reserved_nodes)
            )
        self._status_reporter.waits(gated.raw, known, gated.taken.get(POD_GROUP_NAME))

    def _waits_unread(self, key: str, raw: Mapping[str, Any], why: str) -> None:
        """Report that the pod cannot be parsed, or ungate it after the configured time."""
        if 0 < self._limits.ungate_after <= seconds_waited(raw):
            self._ungate(key, raw, partial(self._ungater.unasked, key, raw, why))
            return
        found = NoAssignment(frozenset({"unreadable", why}), waits(why))
        if self._status_reporter.news(raw, found.kind):
            self._status_reporter.waits(raw, found)

    def _ungate(self, key: str, raw: Mapping[str, Any], ungate_patch: Callable[[], Awaitable[bool]]) -> None:
        """Ungate the pod without an assignment, in the background."""
        uid = raw["metadata"].get("uid", "")
        if not (self._ungating.full or key in self._ungating or key in self._writing or self._delays.is_put_off(uid)):
            self._ungating.start(key, uid, ungate_patch)

    def _written(self, key: str, uid: str, done: bool) -> None:  # called with positional arguments, see WritesInFlight
        """A write in flight ended; done: whether the pod needs no retry."""
        del key
        if done:
            self._delays.succeeded(uid)
        else:
            self._delays.failed(uid)
        self._changed()

    def _write_failed(self, key: str, uid: str, fault: str) -> None:
        """A write failed with an internal error."""
        self._delays.failed(uid)
        self._changed()
        raw = self._cache.gated_pods().get(key)
        if raw is not None and raw["metadata"].get("uid", "") == uid:
            self._status_reporter.waits(raw, _at_fault(fault))


def _at_fault(sentence: str) -> NoAssignment:
    return NoAssignment(frozenset({INTERNAL}), waits(sentence))
