"""Names for the array types of the engine.

Amounts are int64: cpu in millicores, other resources in bytes or a count. Axes: resource (R); zone (Z: a node's NUMA
nodes packed ascending by id, so a position is not an id); node (N).
"""

from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Amounts: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = npt.NDArray[np.int32]
Codes: TypeAlias = npt.NDArray[np.int32]
Ids: TypeAlias = npt.NDArray[np.int16]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Enums: TypeAlias = npt.NDArray[np.int8]
Nodes: TypeAlias = npt.NDArray[np.intp]
"""Indexes of nodes, in the integer type that numpy indexes with directly."""

UNLISTED: Final = -1
"""A missing amount: the zone does not list the resource, or the node's allocatable lacks it."""
NO_ZONE: Final = -1
"""The NUMA id at a position that the node does not have."""
UNKNOWN_DISTANCE: Final = 255
"""The distance of NUMA nodes if none is published, as upstream assumes (ACPI's SLIT: unreachable)."""

# From this number of values on, radix sort takes a third of the time.
_RADIX: Final = 1 << 16

Array = TypeVar("Array", bound=npt.NDArray[Any])


def read_only(array: Array) -> Array:
    """A read-only view of the same memory."""
    snapshot = array.view()
    snapshot.flags.writeable = False
    return snapshot


def every(flags: Bools) -> bool:
    """Same as flags.all() for one axis, which takes several times as long."""
    return int(np.count_nonzero(flags)) == len(flags)


def largest_first(amounts: Amounts) -> Nodes:
    """The indexes of these amounts (int64 [n], 0 or more), largest first, equal ones in order."""
    most = int(amounts.max(initial=0))
    keys = most - amounts
    return np.argsort(keys.astype(np.uint16) if most < _RADIX else keys, kind="stable")


def amounts_at(plane: Amounts, nodes: Nodes) -> Amounts:
    """int64 [z, n]: the amounts on some nodes (indexes), 0 where not listed. plane: int64 [z, N].

    Not to be written to: may be the plane itself.
    """
    if len(nodes) == plane.shape[1]:
        # Looking for the least amount takes a third of the time of a copy.
        return plane if int(plane.min(initial=0)) == 0 else np.maximum(plane, 0)
    amounts: Amounts = plane.take(nodes, axis=1)
    return np.maximum(amounts, 0, out=amounts)


def selected(plane: Amounts, nodes: Nodes) -> Amounts:
    """int64 [z, n]: the amounts on some nodes (indexes, ascending), the plane itself for all. plane: int64 [z, N]."""
    return plane if len(nodes) == plane.shape[1] else plane.take(nodes, axis=1)


def slice_sums(amounts: Amounts, bounds: Codes) -> Amounts:
    """int64 [D]: the sum of each slice. amounts: int64 [n]; bounds: int [D + 1], the start of each slice, then n."""
    running = np.empty(len(amounts) + 1, dtype=np.int64)
    running[0] = 0
    amounts.cumsum(out=running[1:])
    edges = running.take(bounds)
    sums: Amounts = edges[1:] - edges[:-1]
    return sums


class Picker:
    """Picks from planes the amounts at one position of each of n nodes.

    Several times faster than `plane[zones, nodes]`: one flat index serves all planes of one layout.
    """

    __slots__ = ("_indices", "_nodes", "_zones")

    def __init__(self, zones: Bytes, nodes: Nodes) -> None:
        """zones: uint8 [n], each within the planes' zones; nodes: int [n], indexes."""
        self._zones = zones
        self._nodes = nodes
        self._indices: dict[int, npt.NDArray[np.intp]] = {}

    def of(self, plane: Amounts) -> Amounts:
        """int64 [n], new. plane: int64 [zone, node], contiguous along the nodes."""
        stride = plane.strides[0] // plane.itemsize
        index = self._indices.get(stride)
        if index is None:
            index = self._zones * np.int64(stride)
            index += self._nodes
            self._indices[stride] = index
        if plane.flags.c_contiguous:
            flat = plane.reshape(-1)
        else:
            length = (plane.shape[0] - 1) * stride + plane.shape[1]
            flat = np.lib.stride_tricks.as_strided(plane, (length,), (plane.itemsize,), writeable=False)
        return flat.take(index, mode="clip")


@lru_cache(maxsize=4)
def all_nodes(n: int) -> Nodes:
    """The indexes of n nodes: int [n], read-only."""
    return read_only(np.arange(n))
