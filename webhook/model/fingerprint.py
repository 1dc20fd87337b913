"""The fingerprint of a set of pods, by which an exporter says which pods its numbers have counted.

1. One pod: xxh64 of its name, seeded with xxh64 of its namespace.
2. A set: xxh64 over the sorted hashes, each as 8 little-endian bytes. The order of the pods does not matter.
Source: k8stopologyawareschedwg/podfingerprint.
"""

from collections.abc import Iterable
from functools import lru_cache

from xxhash import xxh64_hexdigest, xxh64_intdigest

_VERSION = "pfp0v001"


def pod_fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of (namespace, name) pairs, as NRT attribute nodeTopologyPodsFingerprint carries it."""
    hashes = sorted(xxh64_intdigest(name.encode(), _namespace_seed(namespace)) for namespace, name in pods)
    return _VERSION + xxh64_hexdigest(b"".join(value.to_bytes(8, "little") for value in hashes))


@lru_cache(maxsize=4096)
def _namespace_seed(namespace: str) -> int:
    return xxh64_intdigest(namespace.encode())
