"""When time alone changes something of a node: the first of 5,000 such times without a look at all of them.

A heap with stale entries: a time that was replaced or removed stays in the heap until it comes first, or until stale
entries are the majority.
"""

from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

# Below this size nothing is gained by removing stale entries.
_LEAST_ENTRIES: Final = 64


class DueTimes:
    """One time per node at most, in seconds of any one clock."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __contains__(self, node: str) -> bool:
        return node in self._at

    def put(self, node: str, at: float) -> None:
        """Set the node's time, replacing an earlier one."""
        self._at[node] = at
        heappush(self._heap, (at, node))
        if len(self._heap) > 2 * len(self._at) + _LEAST_ENTRIES:
            self._heap = [(time, name) for name, time in self._at.items()]
            heapify(self._heap)

    def put_earlier(self, node: str, at: float) -> None:
        """Set the node's time, unless it has an earlier one."""
        if node not in self._at or at < self._at[node]:
            self.put(node, at)

    def remove(self, node: str) -> None:
        """Remove the node's time, if it has one."""
        self._at.pop(node, None)

    @property
    def first(self) -> float:
        """The first of all times; inf: there is none."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else inf

    def take(self, now: float) -> list[str]:
        """Remove and return the nodes whose time has come by `now`, the first one first."""
        nodes = []
        while self._at and self.first <= now:
            node = self._heap[0][1]
            del self._at[node]
            nodes.append(node)
        return nodes
