"""The pods and gangs that wait for room: equal pods as one queue, because what fits none of them fits not one."""

from collections import deque
from collections.abc import Collection, Hashable, Iterator
from heapq import heapify, heappop, heappush

from webhook.formats.koordinator.intent import NO_INTENT
from webhook.formats.kubernetes.pod_signature import pod_signature
from webhook.simulation.room import Room
from webhook.simulation.wanted_pod import Unit, WantedGang, WantedPod


class WaitingUnits:
    """Waiting units, in queues."""

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
