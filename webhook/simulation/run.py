"""One run of a scenario, from event to event.

Phases of a moment, the earliest time at which something happens:
1. Pods that have run long enough end; their nodes are noted as freed.
2. If nodes were freed, the units that wait are tried again: by priority, then by age. Nodes kept for a gang that waits
   too long are closed to the units after it (`KeptNodes`).
3. Workloads of this time are created side by side, and their pods or gangs are tried in order.
4. Rejected pods are recreated by their controllers, and tried.
5. Utilisation and the number of waiting pods are recorded.

A pod that a kubelet rejects is recreated `recreate_seconds` later. After `recreations` in a row without a change of the
cluster its controller pauses until a pod begins or ends: the scheduler would choose the same node again.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Final

from webhook.formats.koordinator.intent import NO_INTENT
from webhook.formats.kubernetes.pod_signature import pod_signature
from webhook.simulation.placement import Placed, Placement, Rejected, WebhookPlacement
from webhook.simulation.room import Room
from webhook.simulation.run_metrics import Sample, UsageRecorder
from webhook.simulation.workload import Order, Scenario, Unit, Wanted, WantedGang, WantedPod, units_of


class WaitingUnits:
    """The pods and gangs that wait for room: equal pods as one queue, because what fits none of them fits not one."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._queues: dict[Hashable, deque[Unit]] = {}
        self._signatures: dict[int, tuple[object, Hashable]] = {}

    def add(self, unit: Unit) -> None:
        """A unit begins to wait."""
        self._queues.setdefault(self._queue_of(unit), deque()).append(unit)

    def take(self, freed: Collection[str]) -> Iterator["Turn"]:
        """The first unit of each queue that may fit, in order, and the next one if it was taken.

        freed: the nodes where pods have ended since the last call. Nothing else can help a unit that waits.
        """
        turns = [(queue[0].order, key) for key, queue in self._queues.items() if self._may_fit(queue[0], freed)]
        keys = dict(enumerate(key for _, key in turns))
        heap = [(order, number) for number, (order, _) in enumerate(turns)]
        heapify(heap)
        while heap:
            _, number = heappop(heap)
            queue = self._queues[keys[number]]
            turn = Turn(queue[0])
            yield turn
            if turn.taken:
                queue.popleft()
                if queue:
                    heappush(heap, (queue[0].order, number))
                else:
                    del self._queues[keys[number]]

    def _may_fit(self, unit: Unit, freed: Collection[str]) -> bool:
        pods = unit.waiting() if isinstance(unit, WantedGang) else [unit]
        kinds = {id(pod.kind): pod.kind for pod in pods}
        return any(self._room.may_fit(kind.pod, freed) for kind in kinds.values())

    def _queue_of(self, unit: Unit) -> Hashable:
        if not isinstance(unit, WantedPod):
            return id(unit)
        known = self._signatures.get(id(unit.kind))
        if known is None:
            kind = unit.kind
            signature = pod_signature(kind.pod, kind.intent or NO_INTENT)
            known = kind, (signature, kind.intent is None, kind.pod.priority)
            self._signatures[id(kind)] = known  # with the kind itself: its id must stay its own
        return known[1]


class Turn:
    """A unit that may be tried now."""

    __slots__ = ("taken", "unit")

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.taken = False
        """Whether it waits no longer."""


class KeptNodes:
    """Nodes that are reserved for gangs that have waited long: units that come later in the order get nothing there.

    As the service does it (`reserve_after_seconds`): of each namespace the first gang in the order has nodes kept. They
    are chosen again whenever it is tried, and are no longer kept once it has its nodes.
    """

    def __init__(self) -> None:
        self.released: set[str] = set()
        """Nodes that are no longer kept for a gang; the caller takes them."""
        self._kept: dict[Order, frozenset[str]] = {}
        self._namespaces: dict[Order, str] = {}
        """The namespace of each of these gangs."""
        self._known: dict[tuple[Order, ...], frozenset[str]] = {}

    def may_keep(self, gang: WantedGang) -> bool:
        """Whether no gang of its namespace that comes before it has nodes kept."""
        return not any(
            order < gang.order and namespace == gang.namespace for order, namespace in self._namespaces.items()
        )

    def closed_to(self, unit: Unit) -> frozenset[str]:
        """The nodes where the unit gets nothing."""
        if not self._kept:
            return frozenset()
        order = unit.order
        before = tuple(sorted(other for other in self._kept if other < order))
        if before not in self._known:
            self._known[before] = frozenset().union(*(self._kept[other] for other in before))
        return self._known[before]

    def keep(self, gang: WantedGang, nodes: frozenset[str]) -> None:
        """Keep these nodes for the gang, and no others."""
        order = gang.order
        before = self._forget(order)
        if nodes:
            self._kept[order] = nodes
            self._namespaces[order] = gang.namespace
            for other in [one for one, name in self._namespaces.items() if one > order and name == gang.namespace]:
                self.released |= self._forget(other)
        self.released |= before - nodes
        self._known.clear()

    def _forget(self, order: Order) -> frozenset[str]:
        self._namespaces.pop(order, None)
        return self._kept.pop(order, frozenset())

    def take_released(self) -> set[str]:
        """The nodes that have been released since the last call."""
        taken, self.released = self.released, set()
        return taken


# For one wanted pod. Bounds the time of a run in which pods are rejected again and again.
MOST_RECREATED: Final = 200

Progress = Callable[[int, int], None]
"""Called with the workloads created so far, and their total number."""


class _Kind(IntEnum):
    """Events of one time, in their order."""

    END = 0
    PATIENCE = 1
    """From now on nodes are kept for a gang, if it still waits."""
    ARRIVAL = 2
    RECREATION = 3


@dataclass(frozen=True, slots=True)
class RunResult:
    """What has happened."""

    webhook: bool
    pods: list[WantedPod]
    samples: tuple[Sample, ...]
    millicores: int
    """The CPUs of all nodes."""
    held: int
    """Of these, what pods hold that ran before."""
    refused_binds: int


def side_by_side(workloads: Sequence[Sequence[Unit]]) -> Iterator[Unit]:
    """What workloads of one time create, in its order: their controllers run at the same time.

    Each creates 1, 2, 4, 8 … at a time, one workload after the other. Source: kubernetes pkg/controller/replicaset and
    pkg/controller/job (slowStartBatch, SlowStartInitialBatchSize).
    """
    begin, size = 0, 1
    while any(begin < len(units) for units in workloads):
        for units in workloads:
            yield from units[begin : begin + size]
        begin, size = begin + size, 2 * size


def run(scenario: Scenario, *, webhook: bool, progress: Progress | None = None) -> RunResult:
    """Run the scenario, without or with the webhook."""
    return _Run(scenario, webhook, progress).result()


class _Run:
    def __init__(self, scenario: Scenario, webhook: bool, progress: Progress | None) -> None:
        self._scenario = scenario
        self._webhook = webhook
        self._progress = progress
        self._room = Room(scenario.cluster)
        self._gangs = WebhookPlacement(self._room, scenario.seed, scenario.rules)
        """Only with the webhook, units are gangs."""
        self._placement: Placement = self._gangs if webhook else Placement(self._room, scenario.seed)
        self._wanted = Wanted(scenario)
        self._waiting = WaitingUnits(self._room)
        self._kept = KeptNodes()
        self._long_waiting: list[WantedGang] = []
        """Gangs by the number of their event PATIENCE."""
        self._paused: list[WantedPod] = []
        self._usage = UsageRecorder(scenario.seconds)
        self._held, self._millicores = self._room.millicores()
        self._running = 0
        self._not_running = 0
        self._now = 0.0
        self._arrived = 0
        self._events: list[tuple[float, _Kind, int]] = []
        for number, workload in enumerate(scenario.workloads):
            self._push(workload.at, _Kind.ARRIVAL, number)

    def result(self) -> RunResult:
        """Run to the end."""
        while self._events and self._events[0][0] <= self._scenario.seconds:
            self._moment()
        return RunResult(
            self._webhook,
            self._wanted.pods,
            self._usage.samples(),
            self._millicores,
            self._held,
            self._placement.refused_binds,
        )

    def _moment(self) -> None:
        """Phases 1 to 5."""
        self._now, version = self._events[0][0], self._room.version
        freed = self._end_pods()
        while (number := self._next(_Kind.PATIENCE)) is not None:
            self._keep_nodes(self._long_waiting[number])
        while freed := freed | self._kept.take_released():
            self._try_waiting(freed)
            freed = set()
        self._create_all()
        while (number := self._next(_Kind.RECREATION)) is not None:
            self._try_created(self._wanted.pods[number])
        if self._room.version != version:
            self._resume()
        used = (self._held + self._running) / self._millicores if self._millicores else 0.0
        self._usage.record(Sample(self._now, used, self._not_running))

    def _next(self, kind: _Kind) -> int | None:
        """The number of the next event of this kind and time."""
        if self._events and self._events[0][:2] == (self._now, kind):
            return heappop(self._events)[2]
        return None

    def _push(self, at: float, kind: _Kind, number: int) -> None:
        heappush(self._events, (at, kind, number))

    def _end_pods(self) -> set[str]:
        """Phase 1; returns the nodes."""
        freed: set[str] = set()
        while (number := self._next(_Kind.END)) is not None:
            pod = self._wanted.pods[number]
            pod.ended = self._now
            self._room.release(pod.key)
            self._running -= pod.kind.millicores
            freed.add(pod.node)
        return freed

    def _try_waiting(self, freed: set[str]) -> None:
        """Phase 2."""
        for turn in self._waiting.take(freed):
            turn.taken = self._try(turn.unit)

    def _create_all(self) -> None:
        """Phase 3."""
        created: list[Sequence[Unit]] = []
        while (number := self._next(_Kind.ARRIVAL)) is not None:
            self._arrived += 1
            if not (self._webhook and self._scenario.workloads[number].denied):
                self._not_running += len(self._wanted.of[number])
                created.append(tuple(units_of(self._wanted.of[number], webhook=self._webhook)))
        for unit in side_by_side(created):
            for pod in unit.members.values() if isinstance(unit, WantedGang) else [unit]:
                pod.created += 1
            if not self._try(unit):
                self._waiting.add(unit)
                self._wait_for_patience(unit)
        if self._progress is not None:
            self._progress(self._arrived, len(self._scenario.workloads))

    def _try_created(self, pod: WantedPod) -> None:
        """Phase 4."""
        pod.created += 1
        if not self._try(pod):
            self._waiting.add(pod)

    def _try(self, unit: Unit) -> bool:
        """Try to place a unit; returns whether it is done with, that is, it does not have to wait for room."""
        closed = self._kept.closed_to(unit)
        if isinstance(unit, WantedGang):
            for member, placed in self._gangs.place_gang(unit, closed):
                self._start(member, placed)
            self._keep_nodes(unit)
            return not unit.waiting()
        result = self._placement.place(unit, closed)
        if isinstance(result, Placed):
            self._start(unit, result)
        elif isinstance(result, Rejected):
            self._reject(unit)
        return result is not None

    def _wait_for_patience(self, unit: Unit) -> None:
        """Nodes are kept for a gang when it has waited long enough."""
        if isinstance(unit, WantedGang) and self._scenario.reserve_after:
            self._push(self._now + self._scenario.reserve_after, _Kind.PATIENCE, len(self._long_waiting))
            self._long_waiting.append(unit)

    def _keep_nodes(self, gang: WantedGang) -> None:
        """Keep the nodes that can hold the gang soonest, if it has waited long enough; release those it had."""
        waited = self._now - next(iter(gang.members.values())).workload.at
        is_due = gang.waiting() and 0 < self._scenario.reserve_after <= waited and self._kept.may_keep(gang)
        closed = self._kept.closed_to(gang)
        self._kept.keep(gang, self._gangs.earliest_nodes(gang, closed) if is_due else frozenset())

    def _start(self, pod: WantedPod, placed: Placed) -> None:
        """The pod runs."""
        policy = pod.kind.intent.policy if self._webhook and pod.kind.intent is not None else None
        lasts = pod.workload.run_seconds is None
        self._room.hold(pod.key, placed.node, pod.kind.pod, dict(placed.numa), policy, lasts=lasts)
        pod.node, pod.running = placed.node, self._now
        self._running += pod.kind.millicores
        self._not_running -= 1
        if pod.workload.run_seconds is not None:
            self._push(self._now + pod.workload.run_seconds, _Kind.END, pod.key)

    def _reject(self, pod: WantedPod) -> None:
        """The pod has failed; its controller creates the next one."""
        pod.rejected += 1
        pod.in_a_row += 1
        if not pod.workload.recreates or pod.rejected >= MOST_RECREATED:
            return
        if pod.in_a_row <= self._scenario.recreations:
            self._push(self._now + self._scenario.recreate_seconds, _Kind.RECREATION, pod.key)
        else:
            self._paused.append(pod)

    def _resume(self) -> None:
        """Pods that were rejected too often in a row are recreated again, because the cluster has changed."""
        for pod in self._paused:
            pod.in_a_row = 0
            self._push(self._now + self._scenario.recreate_seconds, _Kind.RECREATION, pod.key)
        self._paused.clear()
