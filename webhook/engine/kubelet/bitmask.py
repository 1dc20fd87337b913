"""Sets of NUMA nodes as numbers: bit k of a mask is the NUMA node at position k, so every set is a row of an array.

A table over z positions has M = 2^z rows, row m is mask m; row 0 is the empty set. Ascending NUMA ids at ascending
positions keep the kubelet's order of masks (kubernetes pkg/kubelet/cm/topologymanager/bitmask).
"""

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools, Bytes, Ids

_BITS: Final = np.uint8(1) << np.arange(8, dtype=np.uint8)


@lru_cache(maxsize=32)
def widths(z: int) -> npt.NDArray[np.int64]:
    """int64 [M]: number of NUMA nodes in each mask over z positions."""
    table = np.zeros(1, dtype=np.int64)
    for _ in range(z):
        table = np.concatenate([table, table + 1])
    table.flags.writeable = False
    return table


@lru_cache(maxsize=32)
def members(z: int) -> Bools:
    """Whether each mask contains the NUMA node at a position (bool [M, z])."""
    table: Bools = (np.arange(1 << z)[:, None] >> np.arange(z)) & 1 == 1
    table.flags.writeable = False
    return table


def subset_sums(amounts: Amounts) -> Amounts:
    """int64 [M, n]: for each mask the sum of `amounts` (int64 [z, n]) over its NUMA nodes.

    Each position doubles the table: masks with its bit are those without it plus its amounts.
    """
    z, n = amounts.shape
    sums = np.zeros((1 << z, n), dtype=np.int64)
    for position in range(z):
        half = 1 << position
        np.add(sums[:half], amounts[position], out=sums[half : 2 * half])
    return sums


def subsets_of(allowed: Bools) -> Bools:
    """Masks with only allowed NUMA nodes (allowed: bool [z, n]), the empty one included: bool [M, n]."""
    z, n = allowed.shape
    table = np.ones((1 << z, n), dtype=np.bool_)
    for position in range(z):
        half = 1 << position
        np.logical_and(table[:half], allowed[position], out=table[half : 2 * half])
    return table


def as_mask(allowed: Bools) -> npt.NDArray[np.int64]:
    """int64 [n]: the mask of the positions that are true (bool [z, n])."""
    if len(allowed) <= 8:
        return _byte_mask(allowed).astype(np.int64)
    bits: npt.NDArray[np.int64] = np.int64(1) << np.arange(len(allowed), dtype=np.int64)
    mask: npt.NDArray[np.int64] = np.asarray(bits @ allowed)
    return mask


def counts(allowed: Bools) -> Bytes:
    """uint8 [n]: how many positions are true (bool [z, n]). Several times faster than count_nonzero along an axis."""
    number: Bytes = np.add.reduce(allowed.view(np.uint8), axis=0, dtype=np.uint8)
    return number


def lowest(allowed: Bools) -> npt.NDArray[np.int64]:
    """int64 [n]: the mask of the lowest position that is true (bool [z, n]); 0 if none is."""
    if len(allowed) > 8:
        return np.where(allowed.any(axis=0), np.int64(1) << allowed.argmax(axis=0), 0)
    bits = _byte_mask(allowed)
    bits &= -bits
    found: npt.NDArray[np.int64] = bits.astype(np.int64)
    return found


def _byte_mask(allowed: Bools) -> Bytes:
    """uint8 [n]: the mask of at most eight positions. Bytes take a fraction of the time of argmax and of int64."""
    mask: Bytes = np.bitwise_or.reduce(allowed.view(np.uint8) * _BITS[: len(allowed), None], axis=0)
    return mask


def intersections(left: Bools, right: Bools) -> Bools:
    """The masks that are the intersection of a mask of `left` and one of `right`, all bool [M, n].

    1. For each mask, count the supersets on either side (a sum over supersets, one doubling step per position).
    2. The product is the number of pairs that both contain the mask.
    3. Inverting the sums leaves the pairs whose intersection is exactly the mask.
    z * 2^z steps instead of the 4^z pairs that the kubelet visits.
    """
    # The number of pairs, 4^z, must fit: int32 up to 15 positions.
    dtype = np.int32 if len(left) <= 1 << 15 else np.int64
    counts = _over_supersets(left.astype(dtype), np.add)
    counts *= _over_supersets(right.astype(dtype), np.add)
    found: Bools = _over_supersets(counts, np.subtract) != 0
    return found


def _over_supersets(table: npt.NDArray[np.integer], step: np.ufunc) -> npt.NDArray[np.integer]:
    """In place, position by position: add the row with the position's bit to the one without it, or subtract it."""
    rows, n = table.shape
    half = 1
    while half < rows:
        halves = table.reshape(rows // (2 * half), 2, half, n)
        step(halves[:, 0], halves[:, 1], out=halves[:, 0])
        half *= 2
    return table


def distance_sums(distances: Ids) -> Amounts:
    """int64 [M, n]: for each mask the sum of distances over its ordered pairs, self included (int16 [z, z, n])."""
    z, _, n = distances.shape
    sums = np.zeros((1 << z, n), dtype=np.int64)
    for position in range(z):
        half = 1 << position
        both_ways = distances[:position, position].astype(np.int64) + distances[position, :position]
        np.add(sums[:half], subset_sums(both_ways), out=sums[half : 2 * half])
        sums[half : 2 * half] += distances[position, position]
    return sums
