"""The nodes in the order of their names: ties between equal nodes are broken the same way by every replica."""

from bisect import bisect_left
from typing import Final

import numpy as np

from webhook.engine.arrays import Nodes

# From so many changes on, sorting all names is cheaper than shifting an array for each.
_FEW: Final = 16


class NameOrder:
    """Sorted node names, and the column of each. The array handed out never changes; a new one replaces it."""

    __slots__ = ("_array", "_changed", "_columns", "_names")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._array: Nodes = np.empty(0, dtype=np.intp)
        self._columns: dict[str, int] = {}
        self._changed: dict[str, None] = {}

    def put(self, name: str, column: int) -> None:
        """The node is at this column, new or moved."""
        self._columns[name] = column
        self._changed[name] = None

    def remove(self, name: str) -> None:
        """The node is gone."""
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
