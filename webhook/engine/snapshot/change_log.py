"""What changed since a version: enough for an overlay or a tree to catch up instead of being rebuilt."""

from collections import deque
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

# A reader further behind copies everything, which costs about as much as this many single changes.
_VERSIONS: Final = 1024

T = TypeVar("T")


class ChangeLog(Generic[T]):
    """The items changed by each of the last versions: append-only, shared by all readers."""

    __slots__ = ("_entries", "version")

    def __init__(self) -> None:
        self._entries: deque[tuple[T, ...]] = deque(maxlen=_VERSIONS)
        self.version = 0

    def append(self, changed: Iterable[T]) -> int:
        """Record that the next version differs in `changed`; returns its number."""
        self._entries.append(tuple(changed))
        self.version += 1
        return self.version

    def since(self, version: int) -> set[T] | None:
        """What may differ between `version` and now; None if the log no longer reaches back that far."""
        behind = self.version - version
        if not 0 <= behind <= len(self._entries):
            return None
        changed: set[T] = set()
        for step in range(1, behind + 1):
            changed.update(self._entries[-step])
        return changed
