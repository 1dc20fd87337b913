"""The names of a workload's pods, each created on demand.

A line of YAML can request 150,000 pods. As strings their names take 10 MiB, even if only their number is needed.
"""

from collections.abc import Iterator, Sequence
from typing import overload

from webhook.model.fields import whole_number


class PodNames(Sequence[str]):
    """Names by rank: `prefix-index`, or, for jobs of several pods each, `prefix-job-pod`."""

    __slots__ = ("_each", "_indexes", "_prefix")

    def __init__(self, prefix: str, indexes: range, each: int | None = None) -> None:
        """indexes: of the pods, ascending without gaps; each: pods of a job."""
        self._prefix = prefix
        self._indexes = indexes
        self._each = each

    @property
    def prefix(self) -> str:
        """The prefix of all names, up to the last common dash."""
        return self._prefix

    def __len__(self) -> int:
        return len(self._indexes)

    def __iter__(self) -> Iterator[str]:
        return map(self._name, self._indexes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "PodNames": ...
    def __getitem__(self, index: int | slice) -> "str | PodNames":
        if isinstance(index, slice):
            return PodNames(self._prefix, self._indexes[index], self._each)
        return self._name(self._indexes[index])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.rank(name) is not None

    def rank(self, name: str) -> int | None:
        """The index of a name, or None if it is not one of them. Constant time."""
        if not name.startswith(f"{self._prefix}-"):
            return None
        numbers = [whole_number(text) for text in name[len(self._prefix) + 1 :].split("-", 2)]
        if self._each is None:
            index = numbers[0] if len(numbers) == 1 else None
        else:
            job, pod = numbers if len(numbers) == 2 else (None, None)
            index = None if job is None or pod is None or pod >= self._each else job * self._each + pod
        # Numbers with leading zeros are other names.
        if index is None or index not in self._indexes or self._name(index) != name:
            return None
        return self._indexes.index(index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(str.__eq__, self, other))

    def __hash__(self) -> int:
        return hash((self._prefix, self._indexes, self._each))

    def __repr__(self) -> str:
        return f"PodNames({self._prefix!r}, {self._indexes!r}, {self._each!r})"

    def _name(self, index: int) -> str:
        if self._each is None:
            return f"{self._prefix}-{index}"
        job, pod = divmod(index, self._each)
        return f"{self._prefix}-{job}-{pod}"
