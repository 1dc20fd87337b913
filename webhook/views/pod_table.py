"""A searchable table of the pods that hold or wait for a node.

1. Bound and assigned pods come from the records of the cluster, waiting ones from the objects of unbound pods.
2. A pod is found if each word of the search is in its namespace/name, node, gang or state.
3. Pods are sorted by namespace and name. Only the rows of the wanted part are made.

Finding costs a few comparisons of text for each pod: 50,000 pods take a few hundredths of a second.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.kubernetes.membership import membership_of
from webhook.formats.kubernetes.pod_resources import PodAmounts
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.model.errors import UserError
from webhook.model.names import PLACEMENT
from webhook.model.resources import NO_RESOURCES
from webhook.state.assumed.observed_placement import PodNUMANodes
from webhook.state.cluster_cache import ClusterCache
from webhook.state.delegated_pods import last_failure
from webhook.state.unmanaged import is_annotated
from webhook.views.nodes import NUMA_SOURCES, DeviceView, devices_on
from webhook.views.pod_standing import AllocationCheck, allocation_check

PART: Final = 100
"""Rows of one part of the table. More would not be read, and a browser would have to lay them out."""
_LONGEST_SEARCH: Final = 256
"""Characters: a namespace/name has at most 317, and a person types less."""


class PodState(StrEnum):
    """What a pod holds."""

    BOUND = "Bound"
    ASSIGNED = "Assigned"
    """It has a node and is not bound yet."""
    WAITING = "Waiting"
    """It waits behind the gate."""
    PENDING = "Pending"
    """It has neither gate nor node: it is the scheduler's turn."""


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod."""

    key: str
    """namespace/name."""
    state: PodState
    node: str
    """Empty while it waits."""
    numa: NUMANodeAmounts
    """Its NUMA nodes and the amounts there; empty if none are known."""
    gang: str
    """Empty if it is in none."""
    rank: int | None
    requests: Mapping[str, int]
    """What it requests, in engine units; empty while it waits."""
    text: str
    """The annotation `placement` of a pod that waits."""

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The name within the namespace."""
        return self.key.partition("/")[2]


@dataclass(frozen=True, slots=True)
class PodTable:
    """A part of the found pods."""

    rows: tuple[PodRow, ...]
    found: int
    """How many pods were found."""
    total: int
    """How many there are."""
    first: int
    """The position of the first row."""


def pod_table(cache: ClusterCache, search: str = "", first: int = 0) -> PodTable:
    """The rows from position `first` on of the pods that the search finds."""
    words = search[:_LONGEST_SEARCH].lower().split()
    total, found = 0, []
    for pod in _pods(cache):
        total += 1
        if not words or _is_found(words, *pod, _gang_of(cache, pod[0])[0]):
            found.append(pod)
    found.sort()
    return PodTable(tuple(_row(cache, *pod) for pod in found[first : first + PART]), len(found), total, first)


@dataclass(frozen=True, slots=True)
class PodDetails:
    """One pod."""

    row: PodRow
    requests: Mapping[str, int]
    """In engine units."""
    policy: str
    """The NUMA policy that it asks for, as Koordinator spells it; empty: none."""
    seconds: int | None
    """Since its creation, while it waits; None if not known."""
    scheduler: str
    """What kube-scheduler reports of its last attempt; empty if it reports nothing."""
    known: str
    """How its NUMA nodes are known, and why what a node agent says of them does not count; empty if it is not bound."""
    check: AllocationCheck | None
    """Its NUMA nodes beside what its node's NodeResourceTopology shows; None if it is not bound."""
    devices: tuple[DeviceView, ...]
    """The devices in ResourceSlices that its claims hold on its node."""


def pod_details(cache: ClusterCache, namespace: str, name: str) -> PodDetails | None:
    """The pod; None if it is unknown, or neither has nor waits for a node by this service."""
    key = f"{namespace}/{name}"
    found = next((pod for pod in _pods(cache) if pod[0] == key), None)
    if found is None:
        return None
    row = _row(cache, *found)
    if row.node:
        record = cache.state.pods[key]
        devices = tuple(one for one in devices_on(cache, row.node) if key in one.pods)
        policy = record.policy.koordinator if record.policy else ""
        known = _known(cache.numa_nodes(row.node).get(key))
        return PodDetails(row, record.requests, policy, None, "", known, allocation_check(cache, key), devices)
    raw = cache.waiting_pods()[key]
    created = epoch_seconds(raw["metadata"].get("creationTimestamp"))
    seconds = None if created is None else max(0, int(cache.current_time() - created))
    policy, requests = "", NO_RESOURCES
    with suppress(UserError):  # its text says so
        requests = PodAmounts.of(raw["spec"], raw.get("status") or {}).requests
        intent = parse_numa_intent(raw["metadata"].get("annotations") or {})[0]
        policy = intent.policy.koordinator if intent.policy else ""
    return PodDetails(row, requests, policy, seconds, last_failure(raw) or "", "", None, ())


def _known(found: PodNUMANodes | None) -> str:
    if found is None:
        return ""
    how = NUMA_SOURCES[found.source] if found.source else ""
    ignored = f"what its annotation says was observed is ignored: {found.ignored.value}" if found.ignored else ""
    return "; ".join(filter(None, (how, ignored)))


def _pods(cache: ClusterCache) -> Iterator[tuple[str, PodState, str]]:
    records = cache.state.pods
    for key, record in records.items():
        if record.node:
            yield key, PodState.BOUND, record.node
        elif record.assigned_node:
            yield key, PodState.ASSIGNED, record.assigned_node
    for key, raw in cache.waiting_pods().items():
        record_of = records.get(key)
        if (record_of is None or not record_of.assigned_node) and is_annotated(raw):
            yield key, PodState.WAITING if raw["spec"].get("schedulingGates") else PodState.PENDING, ""


def _is_found(words: list[str], *texts: str) -> bool:
    text = "\n".join(texts).lower()
    return all(word in text for word in words)


def _gang_of(cache: ClusterCache, key: str) -> tuple[str, int | None]:
    """The pod's gang and its rank there."""
    if (member := cache.gangs.member(key)) is not None:
        return member.gang, member.rank
    raw = cache.waiting_pods().get(key)
    membership = None if raw is None else membership_of(raw)
    return ("", None) if membership is None else (membership.name, membership.rank)


def _row(cache: ClusterCache, key: str, state: PodState, node: str) -> PodRow:
    gang, rank = _gang_of(cache, key)
    if node:
        record = cache.state.pods[key]
        found = cache.numa_nodes(node).get(key)
        numa = record.allocation or () if found is None else tuple(sorted(found.numa.items()))
        return PodRow(key, state, node, numa, gang, rank, record.requests, "")
    annotations = cache.waiting_pods()[key]["metadata"].get("annotations") or {}
    return PodRow(key, state, "", (), gang, rank, {}, annotations.get(PLACEMENT, ""))
