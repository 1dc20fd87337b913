"""Two buffers of a cluster's state (left-right): readers keep the current one while the spare one is written.

1. `writable` returns the spare buffer after copying the columns in which it is behind the current one. If a reader
   still holds the arrays of the spare buffer, a new copy replaces it, so arrays never change under their reader.
2. The caller writes the marked columns.
3. `publish` makes it the current buffer. The previous one becomes the spare.
"""

from collections.abc import Mapping
from weakref import ref

from webhook.engine.snapshot.buffers import Buffer
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.resource_index import ResourceIndex


class DoubleBuffer:
    """The current buffer and its spare."""

    def __init__(self, resources: ResourceIndex) -> None:
        self.current = Buffer(resources, 1, 0)
        """Read-only."""
        self.node_arrays: NodeArrays | None = None
        """The arrays of the current buffer; None before the first."""
        self._spare: Buffer | None = None
        self._spare_arrays: ref[NodeArrays] | None = None
        self._lag: Mapping[int, int] = {}

    def writable(self, resources: ResourceIndex, z: int, n: int) -> Buffer:
        """A buffer that equals the current one and that has no reader, with capacity for n nodes of z NUMA nodes."""
        # Following the current buffer passes through its state, which may have had more nodes.
        n = max(n, self.current.n)
        spare = self._spare
        held = self._spare_arrays is not None and self._spare_arrays() is not None
        if spare is None or held or not spare.has_room(resources, z, n):
            self._spare = None  # the copy may reuse its memory
            capacity = self.current.capacity
            if n > capacity:
                capacity = n if capacity == 0 else n + n // 8
            return self.current.copy(resources, z, capacity)
        spare.follow(self.current, self._lag)
        return spare

    def publish(self, written: Buffer, node_arrays: NodeArrays, changed: Mapping[int, int]) -> None:
        """Make a written buffer the current one. changed: column -> groups in which it differs from the one before."""
        self._lag = changed
        self._spare, self.current = self.current, written
        self._spare_arrays = None if self.node_arrays is None else ref(self.node_arrays)
        self.node_arrays = node_arrays
