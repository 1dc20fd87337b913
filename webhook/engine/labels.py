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

# Values of nodes that are gone (host names above all) are kept until they outnumber the nodes twice over.
_SPARE_VALUES: Final = 1024


class Vocabulary:
    """The values seen of one label key. A code once given stays valid."""

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
    """The labels of every node, and a column of codes for each key that was asked for."""

    __slots__ = ("capacity", "columns", "rows", "vocabularies")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows: list[Mapping[str, str]] = []
        """[N] the labels of each node."""
        self.vocabularies: dict[str, Vocabulary] = {}
        self.columns: dict[str, Codes] = {}
        """Key -> int32 [capacity]; complete for the first N."""

    def column(self, key: str) -> tuple[Codes, Vocabulary]:
        """The code of each node's value of `key` (int32 [node], -1 = the node lacks the label) and the values.

        The vocabulary may know values that no node has any more.
        """
        column = self.columns.get(key)
        vocabulary = self.vocabularies.setdefault(key, Vocabulary())
        if column is None:
            column = np.full(self.capacity, ABSENT, dtype=np.int32)
            for n, labels in enumerate(self.rows):
                value = labels.get(key)
                if value is not None:
                    column[n] = vocabulary.code(value)
            self.columns[key] = column
        return column[: len(self.rows)], vocabulary

    def write(self, n: int, labels: Mapping[str, str]) -> None:
        """Node `n` (at most one beyond the last) now has these labels."""
        if n == len(self.rows):
            self.rows.append(labels)
        else:
            self.rows[n] = labels
        for key, column in self.columns.items():
            value = labels.get(key)
            column[n] = ABSENT if value is None else self.vocabularies[key].code(value)

    def truncate(self, n: int) -> None:
        """Forget the nodes from `n` on."""
        del self.rows[n:]

    def follow(self, other: "LabelColumns") -> None:
        """Know what the other buffer's columns know. The nodes that differ are to be written afterwards.

        A key whose values are mostly gone is forgotten: its column is made again when next asked for.
        """
        if self.vocabularies is not other.vocabularies:
            self.vocabularies = other.vocabularies
            self.columns = {}
        for key, column in other.columns.items():
            if key not in self.columns:
                self.columns[key] = np.resize(column, self.capacity)
        if any(len(v.values) > 2 * len(self.rows) + _SPARE_VALUES for v in self.vocabularies.values()):
            self.vocabularies = {}
            self.columns = {}
