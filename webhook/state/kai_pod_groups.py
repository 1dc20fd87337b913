"""KAI-Scheduler's PodGroups that users write, in the cache.

Their watch is another than that of the pods, so a PodGroup may arrive a moment after pods that were created later. A
caller that does not find one learns whether it may still come.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from webhook.formats.kai.kai_pod_group import KAIPodGroup, is_kept_by_us
from webhook.state.store import Store

# A watch is about 10 ms behind, on a busy machine 100 ms.
_LAG_SECONDS: Final = 1.0
_MOST_MISSED: Final = 10_000


class KAIPodGroups(Store[KAIPodGroup]):
    """The users' PodGroups by namespace/name. Those that we write are left out."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """clock: the time in seconds."""
        super().__init__("PodGroup of KAI-Scheduler", _of_a_user, lambda group: group.key)
        self._clock = clock
        self._missed: dict[str, float] = {}
        """When a PodGroup was first looked for and not found, by namespace/name, oldest first."""
        self._waits_until = 0.0

    def may_come(self, key: str) -> bool:
        """Whether an unknown PodGroup (namespace/name) was first looked for so recently that it may be on its way."""
        if not self.version:
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
            self.changed.emit()

    def put(self, record: KAIPodGroup) -> None:
        """Add a PodGroup, or replace it."""
        self._missed.pop(record.key, None)
        super().put(record)


def _of_a_user(raw: Mapping[str, Any]) -> KAIPodGroup | None:
    return None if is_kept_by_us(raw) else KAIPodGroup.from_object(raw)
