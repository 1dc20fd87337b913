"""The buffers of a cluster's state: readers keep the current one while a spare one is written.

1. `writable` returns a spare buffer after copying the columns in which it is behind the current one. It takes one whose
   arrays no reader holds, so arrays never change under their reader. If there is none, it copies the current buffer.
2. The caller writes the marked columns.
3. `publish` makes it the current buffer. The previous one becomes a spare.

Two buffers are enough while no reader holds an old snapshot. A review that waits for an answer may hold one: then a
third buffer keeps each change from costing a copy of the whole cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from weakref import ref

from webhook.engine.snapshot.buffers import Buffer
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.resource_index import ResourceIndex

_SPARE: Final = 2


@dataclass(slots=True)
class _Spare:
    """A buffer that was the current one."""

    buffer: Buffer
    arrays: ref[NodeArrays] | None
    """Its arrays, which a reader may hold; None if it had none."""
    lag: dict[int, int]
    """Column -> groups in which it is behind the current buffer."""

    def is_held(self) -> bool:
        """Whether a reader holds its arrays."""
        return self.arrays is not None and self.arrays() is not None


class BufferPool:
    """The current buffer and its spares."""

    def __init__(self, resources: ResourceIndex) -> None:
        self.current = Buffer(resources, 1, 0)
        """Read-only."""
        self.node_arrays: NodeArrays | None = None
        """The arrays of the current buffer; None before the first."""
        self._spares: list[_Spare] = []

    def writable(self, resources: ResourceIndex, z: int, n: int) -> Buffer:
        """A buffer that equals the current one and that has no reader, with capacity for n nodes of z NUMA nodes."""
        # Following the current buffer passes through its state, which may have had more nodes.
        n = max(n, self.current.n)
        self._spares = [spare for spare in self._spares if spare.buffer.has_room(resources, z, n)]
        for spare in self._spares:
            if not spare.is_held():
                self._spares.remove(spare)
                spare.buffer.follow(self.current, spare.lag)
                return spare.buffer
        capacity = self.current.capacity
        if n > capacity:
            capacity = n if capacity == 0 else n + n // 8
        return self.current.copy(resources, z, capacity)

    def publish(self, written: Buffer, node_arrays: NodeArrays | None, changed: Mapping[int, int]) -> None:
        """Make a written buffer the current one.

        node_arrays: its arrays; None while the first ones are not complete. changed: column -> groups in which it
        differs from the buffer before.
        """
        for spare in self._spares:
            for column, parts in changed.items():
                spare.lag[column] = spare.lag.get(column, 0) | parts
        arrays = None if self.node_arrays is None else ref(self.node_arrays)
        self._spares = [_Spare(self.current, arrays, dict(changed)), *self._spares][:_SPARE]
        self.current, self.node_arrays = written, node_arrays
