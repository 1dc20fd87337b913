"""What the state holds, and where it differs from the API server: for operators, as kube-scheduler's cache debugger.

A comparison reads fresh lists object by object and keeps names only, so it needs no second copy of the cluster. A watch
is some milliseconds behind a list, so a difference counts if two comparisons in a row find it.

Everything here is named, counted and bounded: no object, annotation or key is in it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from webhook.formats.kubernetes.namespace import Namespace
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology
from webhook.model.errors import UserError
from webhook.model.raw import Raw
from webhook.state.cluster_cache import ClusterCache

SHOWN: Final = 100
"""The most assumed pods that a dump names, and the most differences that are reported one by one."""


class Kind(StrEnum):
    """What is compared, by its plural in the API."""

    NAMESPACES = "namespaces"
    NODES = "nodes"
    TOPOLOGIES = "noderesourcetopologies"
    PODS = "pods"


class How(StrEnum):
    """How the state differs."""

    MISSING = "missing"
    """It exists, and the state does not have it."""
    REDUNDANT = "redundant"
    """The state has it, and it does not exist, or cannot be read any more."""
    OUTDATED = "outdated"
    """The state has another version, and decisions see the difference."""


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """An object in which the state differs from a fresh list."""

    kind: Kind
    key: str
    """namespace/name, or the name."""
    how: How


class Comparison:
    """One pass over fresh lists. They must have what the informers select: no pods that have ended."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._found: set[Difference] = set()
        self._seen: dict[Kind, set[str]] = {kind: set() for kind in Kind}

    def saw(self, kind: Kind, raw: Raw) -> None:
        """Compare an object of a fresh list. One that cannot be read should not be in the state."""
        try:
            key, is_same = _COMPARE[kind](self._cache, raw)
        except UserError:
            return
        self._seen[kind].add(key)
        if is_same is not True:
            self._found.add(Difference(kind, key, How.MISSING if is_same is None else How.OUTDATED))

    def differences(self, kinds: Iterable[Kind] = Kind) -> frozenset[Difference]:
        """The differences, once the lists of these kinds have been read whole."""
        gone = {
            Difference(kind, key, How.REDUNDANT)
            for kind in kinds
            for key in known_keys(self._cache, kind)
            if key not in self._seen[kind]
        }
        return frozenset(self._found | gone)


def known_keys(cache: ClusterCache, kind: Kind) -> Iterable[str]:
    """The keys of all objects of a kind in the state."""
    match kind:
        case Kind.NAMESPACES:
            return cache.known_namespaces()
        case Kind.NODES:
            return cache.state.nodes.keys()
        case Kind.TOPOLOGIES:
            return cache.state.topologies.keys()
        case Kind.PODS:
            return cache.state.pods.keys() | cache.waiting_pods().keys()


def dump(cache: ClusterCache) -> dict[str, Any]:
    """What the state holds: numbers, and the assumed pods that expire first, `SHOWN` at most."""
    assumed = sorted(cache.assumed_pods(), key=lambda pod: (pod.expires, pod.pod))
    return {
        **{kind.value: len(tuple(known_keys(cache, kind))) for kind in Kind},
        "generation": cache.generation,
        "bound": len(cache.state.pods),
        "unbound": len(cache.waiting_pods()),
        "gated": len(cache.gated_pods()),
        "unconfirmed": len(cache.unconfirmed_pods()),
        "gangs": len(cache.gangs.groups()),
        "rejected": len(cache.rejections.by_key()),
        "avoided": sum(map(len, cache.avoided.by_key().values())),
        "hint_changes": len(cache.allocation_changes()),
        "assumed": len(assumed),
        "assumed_pods": [
            {
                "pod": pod.pod,
                "node": pod.node,
                "numa_nodes": sorted(pod.numa),
                "by": "binding" if pod.is_binding else "patch",
                "sure": pod.sure,
                "tentative": pod.tentative,
            }
            for pod in islice(assumed, SHOWN)
        ],
    }


def confirmed(first: frozenset[Difference], second: frozenset[Difference]) -> Sequence[Difference]:
    """The differences that both comparisons found, in order."""
    return sorted(first & second)


_Compared = tuple[str, bool | None]
"""The key of an object, and whether the state has it as it is; None: it does not have it."""


def _namespace(cache: ClusterCache, raw: Raw) -> _Compared:
    fresh = Namespace.from_object(raw)
    known = cache.snapshot().namespaces.get(fresh.name)
    return fresh.name, None if known is None else known == fresh


def _node(cache: ClusterCache, raw: Raw) -> _Compared:
    fresh = Node.from_object(raw)
    known = cache.state.published(fresh.name)
    return fresh.name, None if known is None else known == fresh


def _topology(cache: ClusterCache, raw: Raw) -> _Compared:
    fresh = NodeTopology.from_object(raw)
    known = cache.state.topologies.get(fresh.node)
    return fresh.node, None if known is None else fresh.is_rewritten(known)


def _pod(cache: ClusterCache, raw: Raw) -> _Compared:
    fresh = ResidentPod.from_object(cache.believed(raw))
    if not fresh.node:
        waiting = cache.waiting_pods().get(fresh.key)
        return fresh.key, None if waiting is None else waiting["metadata"].get("uid") == fresh.uid
    known = cache.state.pods.get(fresh.key)
    return fresh.key, None if known is None else _held(known) == _held(fresh)


def _held(pod: ResidentPod) -> tuple[object, ...]:
    return pod.uid, pod.node, pod.allocation, pod.requests


_COMPARE: Final[Mapping[Kind, Callable[[ClusterCache, Raw], _Compared]]] = {
    Kind.NAMESPACES: _namespace,
    Kind.NODES: _node,
    Kind.TOPOLOGIES: _topology,
    Kind.PODS: _pod,
}
