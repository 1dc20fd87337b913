"""KAI-Scheduler's PodGroups that users write, in the cache.

Their watch is another than that of the pods, so a PodGroup may arrive a moment after pods that were created later. Who
looks for one in vain is told whether it may still come.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from webhook.formats.kai.kai_pod_group import KAIPodGroup, is_kept_by_us
from webhook.signal import Signal
from webhook.state.feed import Feed

# A watch is about 10 ms behind, on a busy machine 100 ms.
_LAG_SECONDS: Final = 1.0
_MOST_MISSED: Final = 10_000


class KAIPodGroups:
    """The users' PodGroups by namespace/name. changed: emitted when what one requests has changed."""

    def __init__(self, changed: Signal[[]], clock: Callable[[], float]) -> None:
        """clock: the time in seconds."""
        self._changed = changed
        self._clock = clock
        self._missed: dict[str, float] = {}
        """When a PodGroup was first looked for in vain, by namespace/name, oldest first."""
        self._waits_until = 0.0
        self._known: dict[str, KAIPodGroup] = {}
        self._is_served = False
        self.feed = Feed("PodGroup of KAI-Scheduler", _read, self._put, self.drop)

    def by_key(self) -> Mapping[str, KAIPodGroup]:
        """The PodGroups by namespace/name, live."""
        return MappingProxyType(self._known)

    def serve(self, version: str) -> None:
        """The API server serves them in this version; empty: no longer."""
        self._is_served = bool(version)

    def may_come(self, key: str) -> bool:
        """Whether an unknown PodGroup (namespace/name) was first looked for so recently that it may be on its way."""
        if not self._is_served:
            return False
        now = self._clock()
        if len(self._missed) >= _MOST_MISSED:
            del self._missed[next(iter(self._missed))]
        since = self._missed.setdefault(key, now)
        if not 0 <= now - since < _LAG_SECONDS:  # less than 0: the clock was set back
            return False
        self._waits_until = since + _LAG_SECONDS
        return True

    def advance(self) -> None:
        """Announce that the wait for PodGroups has ended by time alone."""
        if 0 < self._waits_until <= self._clock():
            self._waits_until = 0.0
            self._changed.emit()

    def drop(self, key: str) -> None:
        """Remove a PodGroup."""
        if self._known.pop(key, None) is not None:
            self._changed.emit()

    def _put(self, read: tuple[KAIPodGroup, bool]) -> None:
        group, ours = read
        self._missed.pop(group.key, None)
        if ours:
            self.drop(group.key)
        elif self._known.get(group.key) != group:
            self._known[group.key] = group
            self._changed.emit()


def _read(raw: Mapping[str, Any]) -> tuple[KAIPodGroup, bool]:
    """A PodGroup, and whether it is one of ours."""
    return KAIPodGroup.from_object(raw), is_kept_by_us(raw)
