"""Asks cluster-autoscaler for all machines of a gang together, by a ProvisioningRequest.

The pods of such a gang are not marked (see `marks`): the autoscaler would add nodes for each of them as well. While
they are behind the gate it does not see them, and they get no annotation that names the request: a pod that consumes a
request gets no node in any other way, and that would outlast the request.

Life cycle for a gang of which no member has a node, as often as `settle` is called:
1. It lacks room and new nodes would help: its PodTemplates are created, and in the next sweep the request, when the
   autoscaler knows the templates. Namespaces take turns, and the number of open requests is limited.
2. The conditions of the request become clauses of the placement text.
3. It is cancelled, with its templates, a moment after the gang no longer lacks room: it is placed, gone, or waits for
   something else.
4. It failed, or was open for long: it is cancelled, and the gang is asked for again after a wait, which doubles each
   time (`ProvisioningWaits`). So no gang keeps another from its turn.
5. The pods of the gang have changed: it is cancelled, and another one is made after a shorter wait.
6. Another client deleted it: the gang is asked for again after a wait.

The objects are written in the background (see `provisioning_writer`): a sweep waits for no answer.
All of this is read from the objects, so the next leader continues. Nothing is written while the kind is not served.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import structlog

from webhook.controllers.autoscaling.provisioning_writer import ProvisioningWriter, gang_digest, objects_of
from webhook.controllers.sweep import WorkClock
from webhook.formats.autoscaling import Answer, ProvisioningClass, ProvisioningRequest
from webhook.internal_errors import Where, contained
from webhook.kube.pacing import FairQueue
from webhook.placing.autoscaling import provisioning_pod_sets as texts
from webhook.placing.autoscaling.lacking_room import ScaleUp
from webhook.placing.autoscaling.provisioning_pod_sets import (
    PodSets,
    pod_sets_of,
    put_off_text,
    whole_gang,
    why_no_request,
)
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_cache import ClusterCache

# As cluster-autoscaler's own --provisioning-request-initial-backoff-time and --provisioning-request-max-backoff-time.
FIRST_WAIT_SECONDS: Final = 60.0
_LONGEST_WAIT_SECONDS: Final = 600.0
# The controllers of a gang create its pods over some seconds, and a tenant may change them at any time.
CHANGED_WAIT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Wait:
    until: float
    seconds: float
    why: str


class ProvisioningWaits:
    """The gangs, by digest, for which machines are asked again later, with waits that double.

    Times are seconds of one clock.
    """

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}

    def begin(self, gang: str, why: str, now: float, first: float = FIRST_WAIT_SECONDS) -> str:
        """Put a gang off; returns what its placement says. first: the seconds of its first wait."""
        before = self._waits.get(gang)
        seconds = first if before is None else min(2 * before.seconds, _LONGEST_WAIT_SECONDS)
        self._waits[gang] = _Wait(now + seconds, seconds, why)
        return put_off_text(why)

    def text(self, gang: str, now: float) -> str:
        """What the placement of a gang says that is put off; empty if it is not."""
        wait = self._waits.get(gang)
        return put_off_text(wait.why) if wait is not None and now < wait.until else ""

    def keep(self, gangs: Container[str], now: float) -> None:
        """Forget all gangs but these, and those whose wait was over so recently: their pods may be recreated."""
        self._waits = {
            gang: wait for gang, wait in self._waits.items() if gang in gangs or now < wait.until + wait.seconds
        }


log = structlog.get_logger(__name__)

# cluster-autoscaler takes up one request in a look at the cluster (10 s): 60 are ten minutes of its time.
MOST_OPEN, MOST_OF_A_NAMESPACE = 60, 8
# As for marks: the gang is placed, or lacks room again at once.
_UNWANTED_SECONDS: Final = 5.0
# cluster-autoscaler tries again after at most ten minutes, and holds capacity for ten. Half as long again, so that it
# ends a request itself where it can.
_LONGEST_OPEN_SECONDS: Final = 900.0
# A sweep is a second. Their writes take longer if they are many (see `provisioning_writer`).
_MADE_PER_SWEEP: Final = 4


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A gang that a request is made for."""

    name: str
    """The name of the unit."""
    gang: GatedGang
    digest: str
    answer: ScaleUp
    pod_sets: PodSets


class _Queue(FairQueue[str, _Wanted]):
    """Gangs by namespace in turn, each by its digest."""


class Provisioning:
    """The requests of one provisioning class. Used by the leader alone."""

    def __init__(self, cache: ClusterCache, writer: ProvisioningWriter, class_name: ProvisioningClass) -> None:
        self._cache = cache
        self._requests = cache.provisioning_requests
        self._writer = writer
        self._class = class_name
        self._waits = ProvisioningWaits()
        self._shown: set[str] = set()
        """The gangs whose request the cache has shown, and that we have not cancelled."""
        self._unwanted_since: dict[str, float] = {}
        self._pod_sets: dict[str, tuple[tuple[GatedGang, int], PodSets]] = {}
        self._served: dict[str, float] = {}
        """Namespace -> when a request of it was made last."""
        self._told_absent = False

    def stop(self) -> None:
        """Cancel the writes in flight: we end, or no longer lead. Another leader may cancel what we have made."""
        self._writer.stop()
        self._shown.clear()

    def counts(self) -> Mapping[str, int]:
        """How many requests there are, by answer."""
        return Counter(request.answer.value for request in self._requests.by_key().values())

    async def settle(
        self,
        units: Iterable[WaitingUnit],
        answers: Mapping[str, ScaleUp],
        lacking: Iterable[WaitingUnit] | None,
        now: float,
        work: WorkClock,
    ) -> dict[str, ScaleUp]:
        """Make and cancel requests. Returns the answers with what the placements of these gangs say: none is marked.

        units: the pods and gangs with an answer (by name). lacking: all that lack room; None if that is not known yet.
        now: seconds of `time.monotonic`.
        """
        said = dict(answers)
        asked = [
            (unit, gang, answer)
            for unit in units
            if (gang := whole_gang(unit)) and (answer := answers.get(unit.name)) and answer.is_asked
        ]
        if not self._is_served():
            return said | {unit.name: _says(texts.NOT_SERVED) for unit, _, _ in asked}
        self._writer.begin(tuple(self._requests.by_key().values()), now)
        self._take_refusals(now)
        open_requests: dict[str, list[ProvisioningRequest]] = {}
        for request in self._requests.by_key().values():
            open_requests.setdefault(request.gang, []).append(request)
        prepared, wanted = _Queue(), _Queue()
        gangs: set[str] = set()
        for unit, gang, answer in sorted(asked, key=lambda each: self._served.get(each[0].namespace, 0.0)):
            del said[unit.name]  # whatever happens, it is not marked
            digest = gang_digest(gang)
            gangs.add(digest)
            with contained(Where.GANG, gang=unit.name):
                each = _Wanted(unit.name, gang, digest, answer, await self._pod_sets_of(unit, gang, work))
                if text := self._state(each, open_requests.get(digest, ()), now):
                    said[unit.name] = _says(text)
                else:
                    queue = prepared if self._writer.prepared_for(digest) else wanted
                    queue.put(unit.namespace, digest, each)
            await work.pause_after_a_turn()
        made = self._make(prepared, wanted, said, now)
        if lacking is not None:
            needed = gangs | {
                gang_digest(gang) for unit in lacking if (gang := whole_gang(unit)) and unit.name not in answers
            }
            self._cancel_unwanted(open_requests, needed, now)
            self._writer.discard_all_but(needed)
            self._forget_all_but(needed, [unit for unit, _, _ in asked], now)
        await work.pause()  # what is written at once is told at once; nothing is waited for
        self._take_refusals(now)
        for one in made:
            said[one.name] = _says(self._made_text(one, now))
        return said

    def _take_refusals(self, now: float) -> None:
        for digest, why in self._writer.refusals().items():
            self._put_off_until_later(digest, why, now)

    def _is_served(self) -> bool:
        is_served = bool(self._requests.version)
        if not is_served and not self._told_absent:
            log.warning("provisioning.not_served", resource="provisioningrequests.autoscaling.x-k8s.io")
        self._told_absent = not is_served
        return is_served

    async def _pod_sets_of(self, unit: WaitingUnit, gang: GatedGang, work: WorkClock) -> PodSets:
        """The gang's pod sets, found again when a member has changed."""
        basis = gang, unit.minimum
        known = self._pod_sets.get(unit.name)
        # Members that have not changed are the same objects, so this compares no pods.
        if known is None or known[0] != basis:
            known = self._pod_sets[unit.name] = basis, await work.result_of(pod_sets_of(*basis, self._class))
        return known[1]

    def _state(self, one: _Wanted, open_requests: Sequence[ProvisioningRequest], now: float) -> str:
        """What the gang's placement says; empty if a request is to be made now."""
        if why := why_no_request(one.gang, one.pod_sets):
            if one.digest in self._shown:
                self._put_off_until_later(one.digest, texts.CHANGED, now, CHANGED_WAIT_SECONDS)
            for request in open_requests:
                self._writer.cancel(request, why, now)
            return why
        there = [request for request in open_requests if not self._writer.is_leaving(request)]
        current = next((request for request in there if request.pod_sets == one.pod_sets.digest), None)
        for request in there:
            if request is not current:
                self._put_off_until_later(one.digest, texts.CHANGED, now, CHANGED_WAIT_SECONDS)
                self._writer.cancel(request, texts.CHANGED, now)
        if current is not None:
            self._shown.add(one.digest)
            return self._followed(one, current, now)
        if made := self._writer.made_for(one.digest):
            return self._asked(one, made.name)
        if open_requests:
            return texts.REPLACED
        if one.digest in self._shown:
            return self._put_off_until_later(one.digest, texts.DELETED, now)
        prepared = self._writer.prepared_for(one.digest)
        if prepared is not None and prepared.digest != one.pod_sets.digest:
            self._put_off_until_later(one.digest, texts.CHANGED, now, CHANGED_WAIT_SECONDS)
            self._writer.discard(one.digest)
        if text := self._waits.text(one.digest, now):
            return text
        return self._asked(one, "", texts.BEING_WRITTEN) if self._writer.is_busy(one.digest) else ""

    def _followed(self, one: _Wanted, request: ProvisioningRequest, now: float) -> str:
        """What the autoscaler says about the request. One that came to nothing is cancelled."""
        says = texts.answer_text(request.answer, request.detail)
        longest = _LONGEST_OPEN_SECONDS * (2 if request.answer is Answer.PROVISIONED else 1)
        if not request.answer.is_final and self._cache.current_time() - request.created < longest:
            return self._asked(one, request.name, says)
        why = says if request.answer is not Answer.NONE else texts.UNANSWERED
        text = self._put_off_until_later(one.digest, f"ProvisioningRequest {request.name}: {why}", now)
        self._writer.cancel(request, why, now)
        return text

    def _asked(self, one: _Wanted, name: str, says: str = "") -> str:
        what = texts.request_text(self._class, one.answer.text, one.pod_sets.count, name)
        return f"{what}: {says or texts.answer_text(Answer.NONE)}"

    def _put_off_until_later(self, gang: str, why: str, now: float, first: float = FIRST_WAIT_SECONDS) -> str:
        self._shown.discard(gang)
        return self._waits.begin(gang, why, now, first)

    def _make(self, prepared: _Queue, wanted: _Queue, said: dict[str, ScaleUp], now: float) -> list[_Wanted]:
        """Begin to make requests as far as they may be open, by namespace in turn; returns those that were begun.

        A few at a time: the others follow soon. What is prepared comes first: it is part of those that are open.
        """
        held = Counter(
            [*(request.namespace for request in self._requests.by_key().values()), *self._writer.namespaces()]
        )
        made: list[_Wanted] = []
        while prepared or wanted:
            is_prepared = bool(prepared)
            _, one = prepared.pop() if is_prepared else wanted.pop()
            namespace = one.gang.namespace
            if not is_prepared and (most := _limit(held, namespace)):
                said[one.name] = _says(texts.turn_text(most))
            elif len(made) < _MADE_PER_SWEEP:
                held[namespace] += not is_prepared
                with contained(Where.GANG, gang=one.name):
                    self._begin_to_make(one, now)
                    made.append(one)
        return made

    def _begin_to_make(self, one: _Wanted, now: float) -> None:
        self._served[one.gang.namespace] = now
        version, key = self._requests.version, self._cache.allocation_key
        nodes, class_name = one.answer.nodes, self._class
        self._writer.make(
            one.digest,
            one.gang.namespace,
            lambda: objects_of(one.gang, one.pod_sets, nodes, class_name, version, key),
            now,
        )

    def _made_text(self, one: _Wanted, now: float) -> str:
        """What the placement of a gang says whose request was begun a moment ago."""
        if text := self._waits.text(one.digest, now):
            return text
        made = self._writer.made_for(one.digest) or self._writer.prepared_for(one.digest)
        return self._asked(one, "", texts.BEING_WRITTEN) if made is None else self._asked(one, made.name)

    def _cancel_unwanted(
        self, open_requests: Mapping[str, Sequence[ProvisioningRequest]], needed: AbstractSet[str], now: float
    ) -> None:
        unwanted = open_requests.keys() - needed
        self._unwanted_since = {gang: self._unwanted_since.get(gang, now) for gang in unwanted}
        for gang, since in self._unwanted_since.items():
            if now - since >= _UNWANTED_SECONDS:
                for request in open_requests[gang]:
                    self._writer.cancel(request, "its gang no longer waits for nodes", now)

    def _forget_all_but(self, gangs: AbstractSet[str], asked: Iterable[WaitingUnit], now: float) -> None:
        names, namespaces = {unit.name for unit in asked}, {unit.namespace for unit in asked}
        self._shown &= gangs
        self._waits.keep(gangs, now)
        self._pod_sets = {name: entry for name, entry in self._pod_sets.items() if name in names}
        self._served = {name: at for name, at in self._served.items() if name in namespaces}


def _limit(held: Counter[str], namespace: str) -> int:
    """The limit that keeps a namespace from one more request; 0 if none does. held: the open ones by namespace."""
    if held[namespace] >= MOST_OF_A_NAMESPACE:
        return MOST_OF_A_NAMESPACE
    return MOST_OPEN if held.total() >= MOST_OPEN else 0


def _says(text: str) -> ScaleUp:
    return ScaleUp(is_asked=False, text=text)
