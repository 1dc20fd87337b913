"""The fingerprint of a set of pods: an exporter uses it to say which pods its numbers include.

1. One pod: xxh64 of its name, seeded with xxh64 of its namespace.
2. A set: xxh64 over the sorted hashes, each as 8 little-endian bytes. The order of the pods does not matter.
Source: k8stopologyawareschedwg/podfingerprint.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import pack

from xxhash import xxh64_hexdigest, xxh64_intdigest

_VERSION = "pfp0v001"


def pod_hash(namespace: str, name: str) -> int:
    """The 64-bit hash of one pod."""
    return xxh64_intdigest(name.encode(), _namespace_seed(namespace))


def fingerprint_of_sorted(hashes: Sequence[int]) -> str:
    """The fingerprint of a set of pods. hashes: one for each pod, ascending."""
    return _VERSION + xxh64_hexdigest(pack(f"<{len(hashes)}Q", *hashes))


@lru_cache(maxsize=4096)
def _namespace_seed(namespace: str) -> int:
    return xxh64_intdigest(namespace.encode())
