"""Dense numbers for resource names: the row of a resource in every array of the engine."""

from collections.abc import Iterable, Iterator


class ResourceIndex:
    """Resource name -> row, immutable. A longer index keeps the rows of the shorter one that it extends."""

    __slots__ = ("_rows", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = tuple(names)
        """[R] the resource of each row."""
        self._rows = {name: row for row, name in enumerate(self.names)}

    def find(self, name: str) -> int:
        """The row of the resource, -1 if no node or NUMA node has ever named it."""
        return self._rows.get(name, -1)

    def with_names(self, names: Iterable[str]) -> "ResourceIndex":
        """A longer index: the rows of this one, and one for each name it lacks."""
        return ResourceIndex(dict.fromkeys((*self.names, *names)))

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)
