"""What the C library does with freed memory: keep it for the next decision instead of returning it to the kernel.

A decision frees its temporary arrays, and the next one allocates the same again. By default glibc may return such
memory each time, and then the kernel fills every page with zeros again when it is used. At 5,000 nodes with 8 NUMA
nodes that was about half of many decisions: 240 to 670 page faults (make bench, engine).
"""

import ctypes
from typing import Final

# malloc.h of glibc.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

# An int64 array over 50,000 nodes with 8 NUMA nodes takes 3.1 MiB. Larger ones are still returned when freed.
_LARGEST_KEPT: Final = 4 * 2**20
# At most this is kept unused: eight such arrays, as many as one decision has at a time.
_MOST_KEPT: Final = 8 * _LARGEST_KEPT


def keep_freed_memory() -> bool:
    """Apply this to the whole process; returns whether the C library knows it (glibc does, musl does not)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT)) and bool(mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT))
