"""Node labels as columns of small integers: a selector is decided once per distinct value, not once per node.

A column is created when a key is first requested, and then updated node by node. Unrequested keys cost nothing, however
many there are (feature discovery alone sets hundreds). Keys that no node has cost nothing either: pods may request any.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Codes

ABSENT: Final = -1
"""The code of a node that lacks the label."""

# Values of deleted nodes (mostly host names) are kept until they are twice as many as the nodes.
_SPARE_VALUES: Final = 1024


# A label value has at most 63 characters, and may have leading zeros.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,63}", re.ASCII)


class Vocabulary:
    """The values seen of one label key. A code stays valid once assigned."""

    __slots__ = ("_is_number", "_numbers", "codes", "values")

    def __init__(self) -> None:
        self.values: list[str] = []
        self.codes: dict[str, int] = {}
        self._numbers = np.zeros(0, dtype=np.int64)
        self._is_number = np.zeros(0, dtype=np.bool_)

    def code(self, value: str) -> int:
        """The code of a value, assigned now if it is new."""
        code = self.codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def numbers(self) -> tuple[Amounts, Bools]:
        """The values as Go parses them to int64: int64 [code], 0 if it fails, and bool [code], whether it succeeds."""
        if len(self._numbers) < len(self.values):
            read = [integer(value) for value in self.values[len(self._numbers) :]]
            self._numbers = np.append(self._numbers, np.array([number or 0 for number in read], dtype=np.int64))
            self._is_number = np.append(self._is_number, [number is not None for number in read])
        return self._numbers, self._is_number


def integer(text: str) -> int | None:
    """A label value as Go parses it to int64 (decimal, no spaces, no underscores); None if it is not a number."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


_NO_VALUES: Final = Vocabulary()


class LabelColumns:
    """The labels of every node, and a column of codes for each requested key."""

    __slots__ = ("_absent", "_having", "capacity", "columns", "rows", "vocabularies")

    def __init__(self, capacity: int, rows: Iterable[Mapping[str, str]] = ()) -> None:
        self.capacity = capacity
        self.rows: list[Mapping[str, str]] = list(rows)
        """[N] the labels of each node."""
        self._having: Counter[str] = Counter(key for labels in self.rows for key in labels)
        self._absent: Codes = np.full(capacity, ABSENT, dtype=np.int32)
        self.vocabularies: dict[str, Vocabulary] = {}
        self.columns: dict[str, Codes] = {}
        """Key -> int32 [capacity]; complete for the first N."""

    @property
    def empty(self) -> bool:
        """Whether no node has any label."""
        return not self._having

    def column(self, key: str) -> tuple[Codes, Vocabulary]:
        """The code of each node's value of `key` (int32 [node], -1 = the node lacks the label) and the values.

        The vocabulary may have values that no node has any more.
        """
        column = self.columns.get(key)
        if column is None and key not in self._having:
            return self._absent[: len(self.rows)], _NO_VALUES
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
        """Set the labels of node `n` (at most one beyond the last)."""
        if n == len(self.rows):
            self.rows.append({})
        before, self.rows[n] = self.rows[n], labels
        if before.keys() != labels.keys():
            self._having.update(labels.keys() - before.keys())
            self._forget(before.keys() - labels.keys())
        for key, column in self.columns.items():
            value = labels.get(key)
            column[n] = ABSENT if value is None else self.vocabularies[key].code(value)

    def truncate(self, n: int) -> None:
        """Remove the nodes from `n` on."""
        for labels in self.rows[n:]:
            self._forget(labels)
        del self.rows[n:]

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._having[key] -= 1
            if not self._having[key]:
                del self._having[key]

    def follow(self, other: "LabelColumns") -> None:
        """Adopt the keys of the other buffer's columns. The caller then writes the nodes that differ.

        A key with mostly unused values is dropped: its column is recreated at the next request.
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
