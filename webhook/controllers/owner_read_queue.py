"""Decides which owner is read next: bounded, and in turns by namespace, so that no tenant waits for another's owners.

1. The concurrent reads are limited per namespace and in total.
2. Namespaces take turns; within a namespace, the owner that is due first comes first.
3. If a read took too long, its namespace counts as slow for a while. Slow namespaces share a few of the slots, so that
   owners whose reads hang (a CRD whose conversion webhook does not answer) never use them all.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Final

from webhook.model.pod import Owner

Key = tuple[str, Owner]
"""(namespace, a pod's owner)."""

# 16 concurrent reads of 10 to 20 ms each make 1,000 a second, as many as the leader's writes.
_AT_A_TIME: Final = 16
_OF_ONE_NAMESPACE: Final = 4
_OF_SLOW_ONES: Final = 4
# An outage of a conversion webhook lasts minutes. One read a minute in each of four slots notices when it is back.
_SLOW_SECONDS: Final = 60.0


class ReadQueue:
    """The scheduled reads and those in flight; all times on one clock."""

    def __init__(self) -> None:
        self._due: OrderedDict[str, list[tuple[float, int, Key]]] = OrderedDict()
        self._at: dict[Key, int] = {}
        self._running: Counter[str] = Counter()
        self._slow_until: dict[str, float] = {}
        self._order = count()

    def put(self, key: Key, at: float) -> None:
        """Schedule the read at that time, replacing an earlier schedule."""
        number = self._at[key] = next(self._order)
        heappush(self._due.setdefault(key[0], []), (at, number, key))

    def forget(self, key: Key) -> None:
        """Cancel the scheduled read."""
        self._at.pop(key, None)

    def take(self, now: float) -> Iterator[Key]:
        """The reads to start now; the caller ends each with `done`."""
        self._slow_until = {namespace: until for namespace, until in self._slow_until.items() if until > now}
        found = True
        while found:
            found = False
            for namespace in tuple(self._due):
                if self._has_room(namespace) and self._head(namespace) <= now:
                    _, _, key = heappop(self._due[namespace])
                    del self._at[key]
                    self._running[namespace] += 1
                    self._due.move_to_end(namespace)
                    found = True
                    yield key

    def done(self, key: Key, now: float, *, in_time: bool) -> None:
        """A read ended; in_time: whether it ended before its timeout."""
        namespace = key[0]
        self._running[namespace] -= 1
        if not self._running[namespace]:
            del self._running[namespace]
        if not in_time:
            self._slow_until[namespace] = now + _SLOW_SECONDS

    def next_at(self) -> float | None:
        """When the next read is due; None if there is none, or no slot before a read ends."""
        at = min((self._head(one) for one in tuple(self._due) if self._has_room(one)), default=inf)
        return None if at == inf else at

    def _has_room(self, namespace: str) -> bool:
        if self._running.total() >= _AT_A_TIME or self._running[namespace] >= _OF_ONE_NAMESPACE:
            return False
        slow = sum(self._running[one] for one in self._slow_until)
        return namespace not in self._slow_until or slow < _OF_SLOW_ONES

    def _head(self, namespace: str) -> float:
        """When a namespace's first read is due; forgotten and rescheduled entries are dropped on the way."""
        due = self._due[namespace]
        while due and self._at.get(due[0][2]) != due[0][1]:
            heappop(due)
        if not due:
            del self._due[namespace]
            return inf
        return due[0][0]
