"""Places gated pods, whenever something changes: one writer, who sees what he has just given away.

Life cycle: a term begins -> what the last leader has under way is fenced off -> rounds, until the term ends. A change
of anything (a node, its NUMA nodes, a pod that ends, one that comes) makes the next round; changes during a round make
one more.

A round:
1. The pods that only our gate holds back, highest priority first, then oldest, then by name. The members of a group
   have one turn together (see `gang`): all that must start together at once, or none.
2. Each in turn is decided on with the cluster as it is at that moment, less all that was promised before.
3. One that fits is promised its place at once, which is then written in the background (see `writer`); so many at a
   time, and the round waits where there are more.
4. Where one does not fit, or others are to be bound first (`placed`), no other of the same shape is tried: nothing
   becomes more within a round. Smaller ones are: what waits for something rare does not hold up the others. But for
   a group that has waited long its domain is kept, if that is wanted: those whose turn comes later get no place there.
5. One that has waited too long is let go without a place, if that is wanted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Final, NoReturn

import structlog

from webhook.admission.placement_text import waiting as waits
from webhook.admission.rules import Rules
from webhook.cluster.election import Term
from webhook.cluster.writes import Outcome, PodWrites
from webhook.engine.decide import Decision
from webhook.engine.reserve.grant import Grant
from webhook.model.errors import UserError
from webhook.placement.fence import fence
from webhook.placement.gang import Gang, GangPlacer, Promised, units_of
from webhook.placement.gated import GatedPod, GatedPods, seconds_waited
from webhook.placement.lineages import Lineages, ReadOwner
from webhook.placement.minimum import minimum_of
from webhook.placement.placed import NoPlace, Place, find_place, why_none, without
from webhook.placement.release import Releaser
from webhook.placement.surroundings import GatedWorld, Limits, Standing
from webhook.placement.teller import Teller
from webhook.placement.writer import PlacementWriter

log = structlog.get_logger(__name__)

# Changes that come together (a pod's end, its node's NRT) are one: a round costs a decision per shape of pod.
_COALESCE_SECONDS: Final = 0.02
# Of the event loop's time, which reviews need: while everybody waits, rounds take a fifth of it at most.
_REST_PER_WORK: Final = 4.0
# Then the order is made anew: a pod of high priority that has just come waits for so many at most.
_PER_ROUND: Final = 256
_CLOCK_SECONDS: Final = 1.0
# A pod whose patch was refused has its turn again after so long.
_REFUSED_SECONDS: Final = 10.0
_ASKS_FOR_NOTHING: Final = "neither it nor its owners ask for a placement"


class PlacementController:
    """The duty of a leader. `standing` is asked when it works: leading knows its duties, and so comes later."""

    def __init__(
        self,
        world: GatedWorld,
        writes: PodWrites,
        teller: Teller,
        rules: Rules,
        limits: Limits,
        standing: Callable[[], Standing],
        read_owner: ReadOwner,
    ) -> None:
        self._world = world
        self._writes = writes
        self._teller = teller
        self._rules = rules
        self._limits = limits
        self._standing = standing
        self._writer = PlacementWriter(world, writes, self._may_write, limits.horizon)
        self._gangs = GangPlacer(world, self._writer, rules, limits.reserve_after)
        self._releaser = Releaser(world, writes, teller, rules, self._may_write)
        self._figures = teller.figures
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._pods = GatedPods(rules)
        self.on_gang: Callable[[Gang, str], None] = _nothing
        """Told of each group that was looked at, and why its members wait; empty when they do not."""
        self._term: Term | None = None
        self._fenced: Term | None = None
        self._wake = asyncio.Event()
        self._lineages = Lineages(read_owner, self._wake.set)
        self._not_before: dict[str, float] = {}
        self._kept: frozenset[str] = frozenset()
        self._writing: dict[str, asyncio.Task[None]] = {}
        world.on_change = self._wake.set

    def started(self, term: Term) -> None:
        """A term has begun."""
        self._term = term
        self._wake.set()

    def stopped(self) -> None:
        """It is over."""
        self._term = None

    async def settle(self) -> None:
        """Wait for the patches under way."""
        if self._writing:
            await asyncio.wait(self._writing.values())

    async def run(self) -> NoReturn:
        """Place pods for ever, while we lead."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._teller.run())
            tasks.create_task(self._lineages.run())
            if self._limits.release_after or self._limits.reserve_after:
                tasks.create_task(self._wake_regularly())
            while True:
                await self._wake.wait()
                self._wake.clear()
                term = self._term
                if term is None:
                    continue
                if self._fenced is not term:
                    if self._standing().seconds_until_settled() > 0 and not await self._fence(term):
                        continue
                    self._fenced = term
                worked = await self._round(tasks)
                await asyncio.sleep(max(_COALESCE_SECONDS, worked * _REST_PER_WORK))
        raise AssertionError  # pragma: no cover # none of them returns

    async def _wake_regularly(self) -> NoReturn:
        while True:
            await asyncio.sleep(_CLOCK_SECONDS)
            self._wake.set()

    def _may_write(self) -> bool:
        return self._term is not None and self._standing().is_leader()

    async def _fence(self, term: Term) -> bool:
        def goes_on() -> bool:
            return self._term is term and self._standing().is_leader()

        return await fence(self._world.gated_pods, self._writes, term.name, goes_on, self._limits.concurrency)

    async def _round(self, tasks: asyncio.TaskGroup) -> float:
        """One round; the seconds that were worked in vain."""
        self._figures.round()
        began = monotonic()
        self._pods.update(self._world.gated_pods())
        self._teller.keep(set(self._world.gated_pods()))
        self._not_before = {key: at for key, at in self._not_before.items() if at > monotonic()}
        self._kept = frozenset()
        nowhere_to_go: dict[str, Decision | NoPlace] = {}
        others_first: set[str] = set()
        units = units_of(await self._to_place(tasks))
        given, worked = 0, monotonic() - began
        for unit in units:
            if not self._may_write():
                break
            if given >= _PER_ROUND:
                self._wake.set()
                break
            if isinstance(unit, Gang):
                began = monotonic()
                members = await self._place_gang(tasks, unit)
                took = monotonic() - began
                self._figures.decided("group", took)
                given += members
                worked += 0.0 if members else took
            elif unit.shape not in others_first and not self._is_looked_after(unit):
                if (known := nowhere_to_go.get(unit.shape)) is not None:
                    self._waits(tasks, unit, known, nowhere_to_go)
                    continue
                await self._slots.acquire()
                began = monotonic()
                place = self._find(unit)
                took = monotonic() - began
                if place is not None:
                    self._figures.decided("pod", took)
                if isinstance(place, Place):
                    self._give(tasks, unit, place, self._writer.promise(unit, place))
                    given += 1
                else:
                    self._slots.release()
                    if place is not None:
                        nowhere_to_go[unit.shape] = place
                        self._waits(tasks, unit, place, nowhere_to_go)
                    others_first |= {unit.shape} if place is None else set()
                    worked += took
            await asyncio.sleep(0)  # reviews have their turn
        return worked

    async def _to_place(self, tasks: asyncio.TaskGroup) -> list[GatedPod]:
        """The pods that ask for something, in the order of their turn, with what they take from their owners."""
        failures = await self._lineages.learn(self._pods.owners())
        self._pods.take(self._lineages.get)
        for key, (raw, why) in self._pods.not_ours.items():
            self._let_go(tasks, key, partial(self._releaser.unasked, key, raw, why))
        to_place = []
        for gated in self._pods.in_order():
            owner = gated.owner
            failure = failures.get((gated.pod.namespace, owner.uid)) if owner else None
            if why := str(failure or "") or self._pods.faults.get(gated.key, ""):
                if not self._is_looked_after(gated):
                    self._waits(tasks, gated, NoPlace(frozenset({"owner"}), waits(f"its owners: {why}")), {})
            elif gated.asks:
                to_place.append(gated)
            else:
                unasked = partial(self._releaser.unasked, gated.key, gated.raw, _ASKS_FOR_NOTHING)
                self._let_go(tasks, gated.key, unasked)
        return to_place

    async def _place_gang(self, tasks: asyncio.TaskGroup, gang: Gang) -> int:
        """Place a group as far as its members wait; how many were given a place."""
        waiting = tuple(gated for gated in gang.members if not self._is_looked_after(gated))
        if not waiting:
            return 0
        gated = self._world.gated_pods()
        if not self._may_write() or any(gated.get(one.key) is not one.raw for one in waiting):
            return 0  # what changed makes another round
        try:
            minimum = minimum_of(waiting[0])
        except UserError as error:
            found: list[Promised] | NoPlace = NoPlace(frozenset({"minimum"}), waits(f"its group is not known: {error}"))
        else:
            on_its_way = {one.key: node for one in gang.members if (node := self._world.promised_node(one.key))}
            found = await self._gangs.place(replace(gang, members=waiting), minimum, on_its_way, self._kept)
        self.on_gang(gang, found.text if isinstance(found, NoPlace) else "")
        if isinstance(found, NoPlace):
            self._kept |= found.keeps
            for one in waiting:
                self._waits(tasks, one, found, {})
            return 0
        for one, place, grant in found:
            self._give(tasks, one, place, grant, slot_taken=False)
        return len(found)

    def _is_looked_after(self, gated: GatedPod) -> bool:
        key = gated.key
        return key in self._writing or key in self._not_before or self._world.promised_node(key) is not None

    def _find(self, gated: GatedPod) -> Place | Decision | None:
        """A place for the pod, as it is after the wait for a slot; None when it waits no more, or others go first."""
        if not self._may_write() or self._world.gated_pods().get(gated.key) is not gated.raw:
            return None
        return find_place(without(self._world.view().view, self._kept), gated, self._rules, self._world.placed)

    def _give(
        self, tasks: asyncio.TaskGroup, gated: GatedPod, place: Place, grant: Grant, *, slot_taken: bool = True
    ) -> None:
        """Have the place that was promised written, with what the pod takes from its owners."""
        place = replace(place, annotations={**gated.taken, **place.annotations})

        async def write() -> None:
            if not slot_taken:
                await self._slots.acquire()
            try:
                outcome = await self._writer.write(gated, place, grant)
                if outcome is Outcome.WRITTEN:
                    self._teller.placed(gated, place)
                    log.info("pod.placed", pod=gated.key, node=place.hint.node)
                elif outcome not in {Outcome.STALE, Outcome.GONE}:
                    self._later(gated.key)
            finally:
                del self._writing[gated.key]
                self._slots.release()
                self._wake.set()

        self._writing[gated.key] = tasks.create_task(write())

    def _waits(
        self,
        tasks: asyncio.TaskGroup,
        gated: GatedPod,
        known: Decision | NoPlace,
        shapes: dict[str, Decision | NoPlace],
    ) -> None:
        """The pod fits nowhere; what that is in words is worked out once for a shape, and only when it is news."""
        if 0 < self._limits.release_after <= seconds_waited(gated.raw):
            self._let_go(tasks, gated.key, partial(self._releaser.after_waiting, gated, self._limits.release_after))
            return
        kind = known.kind if isinstance(known, NoPlace) else frozenset(known.excluded)
        if not self._teller.news(gated, kind):
            return
        if isinstance(known, Decision):
            known = shapes[gated.shape] = why_none(known, gated, self._rules, len(self._kept))
        self._teller.waits(gated, known)

    def _let_go(self, tasks: asyncio.TaskGroup, key: str, releasing: Callable[[], Awaitable[bool]]) -> None:
        """Have the pod let go without a place."""

        async def release() -> None:
            try:
                async with self._slots:
                    if not await releasing():
                        self._later(key)
            finally:
                del self._writing[key]

        if key not in self._writing and key not in self._not_before:
            self._writing[key] = tasks.create_task(release())

    def _later(self, key: str) -> None:
        """The pod's turn is not before a while."""
        self._not_before[key] = monotonic() + _REFUSED_SECONDS
        asyncio.get_running_loop().call_later(_REFUSED_SECONDS, self._wake.set)


def _nothing(gang: Gang, why: str) -> None:
    """Nobody wants to know."""
    del gang, why
