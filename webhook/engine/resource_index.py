"""Dense numbers for resource names: the row of a resource in every array of the engine."""

from collections.abc import Iterator

PODS = "pods"
"""The resource whose amount is the number of pods."""


class ResourceIndex:
    """Resource name -> row. Rows are only ever added, so a row once given stays valid for every later snapshot."""

    __slots__ = ("_names", "_rows")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._rows: dict[str, int] = {}

    def row(self, name: str) -> int:
        """The row of the resource, given now if it is new."""
        row = self._rows.setdefault(name, len(self._names))
        if row == len(self._names):
            self._names.append(name)
        return row

    def find(self, name: str) -> int:
        """The row of the resource, -1 if no node or NUMA node has ever named it."""
        return self._rows.get(name, -1)

    def name(self, row: int) -> str:
        """The resource of a row."""
        return self._names[row]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)
