"""The nodes sorted by name: all replicas break ties between equal nodes in the same way."""

from bisect import bisect_left
from typing import Final

import numpy as np

from webhook.engine.arrays import Nodes

# From this number of changes on, sorting all names is cheaper than shifting an array for each.
_FEW: Final = 16


class NameOrder:
    """Sorted node names, and the column of each. A returned array never changes; a new one replaces it."""

    __slots__ = ("_array", "_changed", "_columns", "_names")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._array: Nodes = np.empty(0, dtype=np.intp)
        self._columns: dict[str, int] = {}
        self._changed: dict[str, None] = {}

    def put(self, name: str, column: int) -> None:
        """Set the column of a new or moved node."""
        self._columns[name] = column
        self._changed[name] = None

    def remove(self, name: str) -> None:
        """Remove a node."""
        del self._columns[name]
        self._changed[name] = None

    def columns(self) -> Nodes:
        """The columns by ascending name: int [node]."""
        if len(self._changed) > _FEW:
            self._names = sorted(self._columns)
            self._array = np.fromiter(map(self._columns.__getitem__, self._names), np.intp, len(self._names))
        elif self._changed:
            for name in self._changed:
                self._update(name)
        self._changed = {}
        self._array.flags.writeable = False
        return self._array

    def _update(self, name: str) -> None:
        at = bisect_left(self._names, name)
        known = at < len(self._names) and self._names[at] == name
        column = self._columns.get(name)
        if column is None:
            if known:
                del self._names[at]
                self._array = np.delete(self._array, at)
        elif known:
            self._array = self._array.copy()
            self._array[at] = column
        else:
            self._names.insert(at, name)
            self._array = np.insert(self._array, at, column)
