"""The order in which assigned pods are ungated: nodes in turn, and on each node in the order of its kubelet.

A kubelet gives NUMA nodes in the order in which pods arrive, so bindings to one node wait for each other (see
`admission.binding.guard`). A binding that waits too long is refused, which costs more than a binding. So the pods of
one node are ungated in the order in which they must arrive:
1. Pods that may arrive in any order are ungated side by side. They are of one arrival class: equal pods that get the
   same NUMA nodes.
2. The next class of the node follows when all pods of the one before are bound or gone. Meanwhile other nodes have
   their turn, so that the scheduler always has pods to bind.
3. A pod without a class waits for none and holds up none: it has no NUMA nodes, or the service chooses them.

The caller reports each pod that is bound, gone, or not ungated after all. It also reports a pod that takes too long
(see `binding_pace`): the scheduler may not be able to bind it at all, and then the guard decides on the next ones.
Pods are identified by their uids: a StatefulSet gives the name of a pod to the next one.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")

_Lane = tuple[str, bool]
"""(node, whether the order of its pods counts)."""


@dataclass(slots=True)
class _Pods(Generic[Item]):
    """The pods of one lane."""

    queue: deque[tuple[str, Item, Hashable]] = field(default_factory=deque)
    """(pod, item, arrival class), in order."""
    on_way: set[str] = field(default_factory=set)
    """The pods that were taken from the queue and have not arrived."""
    arrival: Hashable = None
    """The class of those on their way."""
    held: int = 0
    """How many of the queue are counted as held up."""

    @property
    def may_go(self) -> bool:
        """Whether the first of the queue need not wait."""
        return bool(self.queue) and (not self.on_way or self.queue[0][2] == self.arrival)


class UngateOrder(Generic[Item]):
    """A queue of items by pod (uid)."""

    def __init__(self) -> None:
        self._lanes: dict[_Lane, _Pods[Item]] = {}
        self._turns: dict[_Lane, None] = {}
        """The lanes whose first pod may go, in the order of their turn."""
        self._on_way: dict[str, _Lane] = {}
        self.held = 0
        """The number of queued pods on nodes where others must arrive first."""

    def put(self, node: str, pod: str, item: Item, arrival: Hashable = None) -> None:
        """Queue a pod. arrival: its class, equal for pods that may reach the node in any order."""
        lane = node, arrival is not None
        self._lanes.setdefault(lane, _Pods()).queue.append((pod, item, arrival))
        self._changed(lane)

    def pop(self) -> tuple[str, Item] | None:
        """Remove and return the next pod that may go: it is on its way from now on. None if none may."""
        lane = next(iter(self._turns), None)
        if lane is None:
            return None
        del self._turns[lane]
        pods = self._lanes[lane]
        pod, item, arrival = pods.queue.popleft()
        if arrival is not None:
            pods.arrival = arrival
            pods.on_way.add(pod)
            self._on_way[pod] = lane
        self._changed(lane)
        return pod, item

    @property
    def on_way(self) -> int:
        """The number of pods that others may wait for."""
        return len(self._on_way)

    def is_on_way(self, pod: str) -> bool:
        """Whether others may wait for this pod."""
        return pod in self._on_way

    def arrived(self, pod: str) -> bool:
        """Wait for this pod no longer. True if that lets others go."""
        lane = self._on_way.pop(pod, None)
        if lane is None:
            return False
        self._lanes[lane].on_way.discard(pod)
        return self._changed(lane)

    def let_all_go(self) -> None:
        """Wait for none of the pods on their way."""
        for pod in tuple(self._on_way):
            self.arrived(pod)

    def clear(self) -> None:
        """Drop everything."""
        self._lanes.clear()
        self._turns.clear()
        self._on_way.clear()
        self.held = 0

    def _changed(self, lane: _Lane) -> bool:
        """Give the lane a turn if its first pod may go, and forget it if it is empty. True if it got a turn."""
        pods = self._lanes[lane]
        may_go = pods.may_go
        held = 0 if may_go else len(pods.queue)
        self.held += held - pods.held
        pods.held = held
        if not pods.queue and not pods.on_way:
            del self._lanes[lane]
        if not may_go or lane in self._turns:
            return False
        self._turns[lane] = None
        return True
