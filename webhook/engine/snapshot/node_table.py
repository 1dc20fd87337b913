"""What few nodes have, by node."""

from collections.abc import Mapping
from typing import Generic, TypeVar

Value = TypeVar("Value")


class NodeTable(Generic[Value]):
    """Node name -> value. A returned table never changes."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._handed_out = False

    def table(self) -> Mapping[str, Value]:
        """The nodes that have a value."""
        self._handed_out = True
        return self._values

    def write(self, node: str, value: Value | None) -> None:
        """Set the value of a node; an empty one, or None, removes it."""
        if self._values.get(node) == value or not (value or node in self._values):
            return
        if self._handed_out:
            self._values = dict(self._values)
            self._handed_out = False
        if value:
            self._values[node] = value
        else:
            del self._values[node]
