"""Finds the pods that a NodeResourceTopology reports from its pod fingerprint.

An exporter publishes one hash of the pods that it saw, not the pods. So the sets that it may have seen are tried:
1. No pods at all.
2. All pods that are alive on the node, without the 0, 1, .. 16 that were bound last.
3. The same sets, with the 1, 2, .. pods that ended last added.
Each set is tried with every possible meaning of the publisher's method. If none matches, the reported pods are unknown.

Pods bound within the same second are tried in the order in which they were seen bound, then in the order of their
names: a replica that has just started knows no other order. The right set may be missing among those tried. Then the
exporter's next scan, seconds later, reports all of them.
Source: k8stopologyawareschedwg/podfingerprint; scheduler-plugins pkg/noderesourcetopology/cache.

The fingerprint of a set of pods:
1. One pod: xxh64 of its name, seeded with xxh64 of its namespace.
2. A set: xxh64 over the sorted hashes, each as 8 little-endian bytes. The order of the pods does not matter.
Source: k8stopologyawareschedwg/podfingerprint.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from struct import pack
from typing import Final

from xxhash import xxh64_hexdigest, xxh64_intdigest

from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import FingerprintMethod

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


# Pods that may be bound to one node between two scans of its exporter: scans are seconds apart where pods start.
_LATEST_LIVING: Final = 16

_Seen = Callable[[ResidentPod], bool]

# A kubelet without a memory manager allocates no NUMA memory. An NRT does not say whether it has one: both are tried.
_SEEN: Final[Mapping[FingerprintMethod, tuple[_Seen, ...]]] = {
    FingerprintMethod.ALL: (lambda _: True,),
    FingerprintMethod.EXCLUDE_TERMINAL: (lambda _: True,),
    FingerprintMethod.WITH_EXCLUSIVE_RESOURCES: (
        lambda pod: pod.exclusive_resources,
        lambda pod: pod.exclusive_beyond_memory,
    ),
}


def reported_pods(
    fingerprint: str, method: FingerprintMethod, living: Sequence[ResidentPod], ended: Sequence[ResidentPod]
) -> frozenset[str] | None:
    """The keys of the pods that the fingerprint covers; None if no set matches it.

    living: the pods bound to the node, in the order in which they were seen bound. ended: the pods that have ended
    there, the last ended first.
    """
    if fingerprint == fingerprint_of_sorted(()):
        return frozenset()
    for in_order in _orders(living):
        for seen in _SEEN[method]:
            here = [pod for pod in in_order if seen(pod)]
            gone = [pod for pod in ended if seen(pod)]
            for back in range(len(gone) + 1):
                for keys, candidate in _candidates(here, gone[:back]):
                    if candidate == fingerprint:
                        return frozenset(keys)
    return None


def _orders(living: Sequence[ResidentPod]) -> Iterator[Sequence[ResidentPod]]:
    """The orders in which the pods may have been bound."""
    as_seen = sorted(living, key=lambda pod: pod.bound_at or 0)
    yield as_seen
    by_name = sorted(living, key=lambda pod: (pod.bound_at or 0, pod.key))
    if by_name != as_seen:
        yield by_name


def _candidates(living: Sequence[ResidentPod], more: Sequence[ResidentPod]) -> Iterator[tuple[list[str], str]]:
    """The keys and the fingerprint of each set: `more` and all living pods but the last 0, 1, .. of them."""
    keys = [pod.key for pod in (*more, *living)]
    hashes = sorted(_hash(pod) for pod in (*more, *living))
    for left_out in range(min(len(living), _LATEST_LIVING) + 1):
        if left_out:
            keys.pop()
            del hashes[bisect_left(hashes, _hash(living[-left_out]))]
        yield keys, fingerprint_of_sorted(hashes)


def _hash(pod: ResidentPod) -> int:
    return pod_hash(pod.namespace, pod.name)
