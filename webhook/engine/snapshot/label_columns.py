"""Node labels as columns of small integers: a selector is decided once per distinct value, not once per node.

A column is made when a key is first asked for and kept up to date from then on, one node at a time. Keys nobody asks
for cost nothing, however many there are (feature discovery alone sets hundreds). Neither do keys that no node has: pods
may ask for any.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Codes

ABSENT: Final = -1
"""The code of a node that lacks the label."""

# Values of nodes that are gone (host names above all) are kept until they outnumber the nodes twice over.
_SPARE_VALUES: Final = 1024


# A label value has at most 63 characters, and zeros may lead.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,63}", re.ASCII)


class Vocabulary:
    """The values seen of one label key. A code once given stays valid."""

    __slots__ = ("_is_number", "_numbers", "codes", "values")

    def __init__(self) -> None:
        self.values: list[str] = []
        self.codes: dict[str, int] = {}
        self._numbers = np.zeros(0, dtype=np.int64)
        self._is_number = np.zeros(0, dtype=np.bool_)

    def code(self, value: str) -> int:
        """The code of a value, given now if it is new."""
        code = self.codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def numbers(self) -> tuple[Amounts, Bools]:
        """The values as Go's int64 reads them: int64 [code], 0 where it reads none, and bool [code], where it does."""
        if len(self._numbers) < len(self.values):
            read = [integer(value) for value in self.values[len(self._numbers) :]]
            self._numbers = np.append(self._numbers, np.array([number or 0 for number in read], dtype=np.int64))
            self._is_number = np.append(self._is_number, [number is not None for number in read])
        return self._numbers, self._is_number


def integer(text: str) -> int | None:
    """A label value as Go's int64 reads it (decimal, no spaces, no underscores); None if it is none."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


_NO_VALUES: Final = Vocabulary()


class LabelColumns:
    """The labels of every node, and a column of codes for each key that was asked for."""

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
        """Whether no node has any."""
        return not self._having

    def column(self, key: str) -> tuple[Codes, Vocabulary]:
        """The code of each node's value of `key` (int32 [node], -1 = the node lacks the label) and the values.

        The vocabulary may know values that no node has any more.
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
        """Node `n` (at most one beyond the last) now has these labels."""
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
        """Forget the nodes from `n` on."""
        for labels in self.rows[n:]:
            self._forget(labels)
        del self.rows[n:]

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._having[key] -= 1
            if not self._having[key]:
                del self._having[key]

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
