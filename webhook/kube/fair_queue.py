"""A queue of items to write, by namespace in turn: a namespace with many items delays only its own.

1. `put` adds an item, or replaces the one with the same key at its position.
2. `pop` returns the oldest item of the namespace that was served longest ago.
3. Beyond `most` items the oldest of the namespace with the most items is dropped.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class FairQueue(Generic[Key, Item]):
    """Items by namespace and key; `most`: the maximum number, None for no limit."""

    def __init__(self, most: int | None = None) -> None:
        self._most: Final = most
        self._size = 0
        self._namespaces: dict[str, dict[Key, Item]] = {}
        """Namespaces in the order of their turn, none empty; the items of each, oldest first."""

    def __len__(self) -> int:
        return self._size

    def get(self, namespace: str, key: Key) -> Item | None:
        """The item with this key."""
        return self._namespaces.get(namespace, {}).get(key)

    def put(self, namespace: str, key: Key, item: Item) -> None:
        """Add an item."""
        own = self._namespaces.setdefault(namespace, {})
        self._size += key not in own
        own[key] = item
        if self._most is not None and self._size > self._most:
            largest = max(self._namespaces, key=lambda name: len(self._namespaces[name]))
            self._take(largest, next(iter(self._namespaces[largest])))

    def discard(self, namespace: str, key: Key) -> None:
        """Remove an item if it is queued."""
        if key in self._namespaces.get(namespace, {}):
            self._take(namespace, key)

    def pop(self) -> tuple[Key, Item]:
        """Remove and return the next item. Raises StopIteration if there is none."""
        namespace, own = next(iter(self._namespaces.items()))
        key = next(iter(own))
        item = self._take(namespace, key)
        if own:
            self._namespaces[namespace] = self._namespaces.pop(namespace)  # moved to the end
        return key, item

    def _take(self, namespace: str, key: Key) -> Item:
        own = self._namespaces[namespace]
        item = own.pop(key)
        self._size -= 1
        if not own:
            del self._namespaces[namespace]
        return item
