"""Node labels as columns of small integers: a selector is decided once per distinct value, not once per node.

A column is made when a key is first asked for and kept up to date from then on, one node at a time. Keys nobody asks
for cost nothing, however many there are (feature discovery alone sets hundreds).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from webhook.engine.arrays import Codes

ABSENT: Final = -1
"""The code of a node that lacks the label."""


class Vocabulary:
    """The values seen of one label key. A code once given stays valid; both buffers share it."""

    __slots__ = ("codes", "values")

    def __init__(self) -> None:
        self.values: list[str] = []
        self.codes: dict[str, int] = {}

    def code(self, value: str) -> int:
        """The code of a value, given now if it is new."""
        code = self.codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code


class LabelColumns:
    """The labels of every node of one buffer, and a column of codes for each key that was asked for."""

    __slots__ = ("_capacity", "_columns", "_vocabularies", "rows")

    def __init__(self, capacity: int, vocabularies: dict[str, Vocabulary]) -> None:
        self.rows: list[Mapping[str, str]] = []
        """[N] the labels of each node."""
        self._capacity = capacity
        self._vocabularies = vocabularies
        self._columns: dict[str, Codes] = {}

    def column(self, key: str) -> tuple[Codes, Vocabulary]:
        """The code of each node's value of `key` (int32 [node], -1 = the node lacks the label) and the values.

        The vocabulary may know values that no node has any more.
        """
        vocabulary = self._vocabularies.setdefault(key, Vocabulary())
        column = self._columns.get(key)
        if column is None:
            column = np.full(self._capacity, ABSENT, dtype=np.int32)
            for n, labels in enumerate(self.rows):
                value = labels.get(key)
                if value is not None:
                    column[n] = vocabulary.code(value)
            self._columns[key] = column
        return column[: len(self.rows)], vocabulary

    def write(self, n: int, labels: Mapping[str, str]) -> None:
        """Node `n` (at most one beyond the last) now has these labels."""
        if n == len(self.rows):
            self.rows.append(labels)
        else:
            self.rows[n] = labels
        for key, column in self._columns.items():
            value = labels.get(key)
            column[n] = ABSENT if value is None else self._vocabularies[key].code(value)

    def truncate(self, n: int) -> None:
        """Forget the nodes from `n` on."""
        del self.rows[n:]

    def adopt_columns(self, other: "LabelColumns") -> None:
        """Take over the columns that only the other buffer has; nodes that differ are to be written afterwards."""
        for key, column in other._columns.items():
            if key not in self._columns:
                self._columns[key] = column[: self._capacity].copy()
