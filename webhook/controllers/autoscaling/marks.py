"""Marks gated pods that one more node of a node group would help, so that a cluster autoscaler sees them.

The mark is the condition `PodScheduled=False` with the reason `Unschedulable` (see `formats.autoscaling`). The pod
keeps its gate: kube-scheduler cannot bind it to a node that cannot align it, and nothing has to be taken back.

Every second, while we lead:
1. Each unit that lacks room for a moment gets its answer (see `answers`), by namespace in turn, for a bounded time. The
   others keep their last one, and come first in the next second. A unit for which a place is held by preemption, or
   that the scheduler nominated a node for, needs no node.
2. The answers are left for the placement texts. Nodes whose exporter is missing are reported.
   A gang for which its machines are asked together is not marked (see `provisioning`).
3. Pods whose mark is not what their answer says are written: by namespace in turn, at a limited rate, one by one. A
   mark is removed a moment after the pod no longer lacks room, or was ungated with it and not bound.
4. Pods for which an autoscaler was asked without effect are kept off nodes that mislead it (see `narrowing`).
What is marked is read from the pods, so the next leader knows it. Without an autoscaler in the settings, marks that are
left over are removed.

A mark stays while a new node has not published its NUMA nodes: autoscalers count by sums, so they take the pod for one
that fits there. They add no other node, and do not remove the empty one.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import structlog

from webhook.controllers.autoscaling.exporter_reports import MissingExporterReports
from webhook.controllers.autoscaling.narrowing import Narrowing
from webhook.controllers.autoscaling.provisioning import Provisioning
from webhook.controllers.sweep import Sweep
from webhook.formats.autoscaling import is_marked, mark, unmark
from webhook.internal_errors import Where, contained
from webhook.kube.pacing import FairQueue, RateLimiter
from webhook.kube.pod_writes import PodWrites
from webhook.model.raw import Raw
from webhook.placing.autoscaling.answers import ScaleUpAnswers
from webhook.placing.autoscaling.lacking_room import LackingRoom, ScaleUp
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# Decisions in one sweep: some dozens in a cluster of 5,000 nodes.
_PART_SECONDS: Final = 0.05
# Preemption chooses within half a second, and the members of a gang follow each other faster than this.
_SETTLE_SECONDS: Final = 2.0
# 500 pods between two looks of an autoscaler (10 s). A status write takes the API server 5 ms or so.
_RATE, _BURST = 50.0, 50
# The scheduler binds a pod that was ungated with a node within this time, which removes the mark. Autoscalers look
# again only later.
_UNWANTED_SECONDS: Final = 5.0
# A written mark is visible long before this time.
_AGAIN_SECONDS: Final = 30.0

_Incarnation = tuple[str, str]
"""(namespace/name, uid)."""


class ScaleUpMarks(Sweep):
    """Writes marks while `is_leader()`."""

    # As the placement controller: a fifth of the event loop's time at most.
    rest_per_work = 4.0

    def __init__(  # noqa: PLR0913, PLR0917 # a part of the sweep each
        self,
        cache: ClusterCache,
        writes: PodWrites,
        lacking_room: LackingRoom,
        answers: ScaleUpAnswers,
        narrowing: Narrowing,
        exporters: MissingExporterReports,
        provisioning: Provisioning | None,
        is_leader: Callable[[], bool],
    ) -> None:
        """provisioning: asks for gangs as a whole; None: their pods are marked."""
        super().__init__(is_leader)
        self.count = 0
        """The pods that are marked."""
        self._cache = cache
        self._writes = writes
        self._lacking_room = lacking_room
        self._answers = answers
        self._narrowing = narrowing
        self._exporters = exporters
        self._provisioning = provisioning
        self._pace = RateLimiter(_RATE, _BURST)
        self._since: dict[str, float] = {}
        self._served: dict[str, float] = {}
        """Namespace -> when one of its units got an answer last."""
        self._last: dict[str, ScaleUp] = {}
        self._unwanted_since: dict[_Incarnation, float] = {}
        self._written: dict[_Incarnation, tuple[bool, float]] = {}

    def requests(self) -> Mapping[str, int]:
        """Answer -> the ProvisioningRequests for gangs; empty if none are made."""
        return {} if self._provisioning is None else self._provisioning.counts()

    def _forget(self) -> None:
        """Cancel what is written in the background."""
        if self._provisioning is not None:
            self._provisioning.stop()

    def _end(self) -> None:
        self._forget()

    async def _sweep(self, now: float) -> None:
        units = self._waiting(now)
        if units:
            self._answers.refresh(now)
        self._answers.keep(units)
        await self._find(units, now)
        self._exporters.tell(self._answers.without_exporter(), now)
        said: Mapping[str, ScaleUp] = self._last
        if self._provisioning is not None:
            lacking = self._in_need() if self._lacking_room.is_known else None
            said = await self._provisioning.settle(units, said, lacking, now, self._work)
        answers = {member.key: answer for unit in units if (answer := said.get(unit.name)) for member in unit.members}
        self._lacking_room.answered(answers)
        await self._write_all(answers, now)
        asked = [unit for unit in units if (answer := said.get(unit.name)) and answer.is_asked]
        await self._work.wait_for(self._narrowing.sweep(asked, self._answers.newest, now))

    def _waiting(self, now: float) -> list[WaitingUnit]:
        """The units that have lacked room for a moment, those of the namespace that was served longest ago first."""
        units = self._in_need()
        self._since = {unit.name: self._since.get(unit.name, now) for unit in units}
        settled = [unit for unit in units if now - self._since[unit.name] >= _SETTLE_SECONDS]
        namespaces = {unit.namespace for unit in settled}
        self._served = {name: at for name, at in self._served.items() if name in namespaces}
        names = {unit.name for unit in settled}
        self._last = {name: answer for name, answer in self._last.items() if name in names}
        return sorted(settled, key=lambda unit: (self._served.get(unit.namespace, 0.0), self._since[unit.name]))

    def _in_need(self) -> list[WaitingUnit]:
        """The units that lack room and for which no place is held."""
        return [unit for unit in self._lacking_room.units() if not any(map(self._needs_no_node, unit.members))]

    def _needs_no_node(self, member: GatedPod) -> bool:
        """Whether a place is held for the pod, or on its way."""
        raw = self._cache.ours.gated().get(member.key)
        return (
            raw is None
            or self._lacking_room.preemptors.holds.of_member(member.key) is not None
            or bool((raw.get("status") or {}).get("nominatedNodeName"))
            or self._cache.assumed_node(member.key) is not None
        )

    async def _find(self, units: list[WaitingUnit], now: float) -> None:
        queue: FairQueue[str, WaitingUnit] = FairQueue()
        for unit in units:
            if (known := self._answers.known(unit, now)) is not None:
                self._last[unit.name] = known
            else:
                queue.put(unit.namespace, unit.name, unit)
        began = self._work.seconds()
        while queue and self._work.seconds() - began < _PART_SECONDS:
            _, unit = queue.pop()
            self._served[unit.namespace] = now
            with contained(Where.POD, pod=unit.name):
                self._last[unit.name] = await self._work.result_of(self._answers.find(unit, now))
            await self._work.pause()  # let reviews run

    async def _write_all(self, answers: Mapping[str, ScaleUp], now: float) -> None:
        self._written = {one: entry for one, entry in self._written.items() if now - entry[1] < _AGAIN_SECONDS}
        queue: FairQueue[_Incarnation, bool] = FairQueue()
        undecided = {member.key for unit in self._lacking_room.units() for member in unit.members} - answers.keys()
        marked = {}
        for key, raw in self._cache.ours.gated().items():
            answer, one = answers.get(key), _incarnation(key, raw)
            if is_marked(raw):
                marked[one] = answer is not None and answer.is_asked
            elif answer is not None and answer.is_asked and not self._is_written(one, wanted=True):
                queue.put(key.partition("/")[0], one, True)
        self.count = len(marked)
        marked |= {_incarnation(key, raw): False for key, raw in self._cache.ours.ungated().items() if is_marked(raw)}
        unwanted = [one for one, wanted in marked.items() if not wanted and one[0] not in undecided]
        self._unwanted_since = {one: self._unwanted_since.get(one, now) for one in unwanted}
        for one, since in self._unwanted_since.items():
            is_due = now - since >= _UNWANTED_SECONDS and self._lacking_room.is_known
            if is_due and not self._is_written(one, wanted=False):
                queue.put(one[0].partition("/")[0], one, False)
        for _ in range(min(len(queue), int(_RATE * self.period))):
            one, wanted = queue.pop()
            await self._work.wait_for(self._pace.turn())
            with contained(Where.POD, pod=one[0]):
                await self._write(one, answers.get(one[0]) if wanted else None, now)

    def _is_written(self, one: _Incarnation, *, wanted: bool) -> bool:
        return self._written.get(one, (not wanted, 0.0))[0] == wanted

    async def _write(self, one: _Incarnation, answer: ScaleUp | None, now: float) -> None:
        """Set the mark of a pod, or remove it (answer: None), if it is still as it was.

        The write names the version of the pod: what the scheduler wrote meanwhile is kept.
        """
        key, uid = one
        raw = self._cache.waiting_pod(key, uid)
        gated = key in self._cache.ours.gated()
        # While its assignment is being written, a write to its status would make that fail.
        if raw is None or not self._is_leader() or (gated and self._cache.assumed_node(key) is not None):
            return
        if is_marked(raw) == (answer is not None) or (answer is not None and not gated):
            return
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = unmark(raw, date) if answer is None else mark(raw, answer.message, date)
        version = str(raw["metadata"].get("resourceVersion", ""))
        write = await self._work.wait_for(self._writes.set_condition(key, uid, condition, version))
        if write.is_written:
            self._written[one] = answer is not None, now
            log.info("pod.marked" if answer else "pod.unmarked", pod=key, why=condition["message"])
        elif not write.is_settled:
            log.warning("pod.mark_failed", pod=key, error=write.error)


def _incarnation(key: str, raw: Raw) -> _Incarnation:
    return key, str(raw["metadata"].get("uid", ""))
