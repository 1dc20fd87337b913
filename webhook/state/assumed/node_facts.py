"""All that is known of the pods of each node before any reservation is computed.

The assumed pods, by pod and by node.

The NodeResourceTopology of each node, and which pods it reports.

A fingerprint covers names, and a pod may be recreated under its name on the same node. So a covered name may still mean
the earlier pod until an NRT is written long enough after the next one was bound.

Pods that ended on a node, and whose resources its NodeResourceTopology may still show as taken.

As soon as a pod has ended, a kubelet gives what it held to the next pod. The NRT follows with the exporter's next scan.
An ended pod that is still in the API server shows when it ended. A deleted pod shows nothing, so it is recorded here.

Finds the pods that a NodeResourceTopology reports from its pod fingerprint.

An exporter publishes one hash of the pods that it saw, not the pods. So the sets that it may have seen are tried:
1. No pods at all.
2. All pods that are alive on the node, without the 0, 1, .. 16 that were bound last.
3. The same sets, with the 1, 2, .. pods that ended last added.
Each set is tried with every possible meaning of the publisher's method. If none matches, the reported pods are unknown.

Pods bound within the same second are tried in the order in which they were seen bound, then in the order of their
names: a replica that has just started knows no other order. The right set may be missing among those tried. Then the
exporter's next scan, seconds later, reports all of them.
Source: k8stopologyawareschedwg/podfingerprint; scheduler-plugins pkg/noderesourcetopology/cache.

The fingerprint of a set of pods: an exporter uses it to say which pods its numbers include.

1. One pod: xxh64 of its name, seeded with xxh64 of its namespace.
2. A set: xxh64 over the sorted hashes, each as 8 little-endian bytes. The order of the pods does not matter.
Source: k8stopologyawareschedwg/podfingerprint.

What Koordinator's Reservations hold on nodes, as reservations of the ledger.

Without a record of its NUMA nodes, a Reservation is kept on each NUMA node of its node that has the resource: its
owners may be given any of them.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from struct import pack
from typing import Final, Self

from xxhash import xxh64_hexdigest, xxh64_intdigest

from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.koordinator.koordinator_reservation import KoordinatorReservation
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import FingerprintMethod, NodeTopology, Publisher
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.binding_order import BindingOrder
from webhook.state.assumed.bound_hints import BoundHints
from webhook.state.assumed.pods_by_node import PodsByNode
from webhook.state.assumed.unhinted import UnhintedPods
from webhook.state.assumed.unreported import ReportingTimes, is_long_after


class HeldByReservations:
    """The Reservations that hold something, by node."""

    def __init__(self) -> None:
        self._by_name: dict[str, KoordinatorReservation] = {}
        self._on: dict[str, dict[str, KoordinatorReservation]] = {}

    def put(self, one: KoordinatorReservation) -> set[str]:
        """Record a Reservation; returns the nodes for which that changes something."""
        if self._by_name.get(one.name) == one:
            return set()
        changed = self.drop(one.name)
        if one.node:
            self._by_name[one.name] = one
            self._on.setdefault(one.node, {})[one.name] = one
            changed.add(one.node)
        return changed

    def drop(self, name: str) -> set[str]:
        """Remove a Reservation; returns its node, if it held something."""
        known = self._by_name.pop(name, None)
        if known is None:
            return set()
        on_node = self._on[known.node]
        del on_node[name]
        if not on_node:
            del self._on[known.node]
        return {known.node}

    def on(self, node: str, topology: NodeTopology | None) -> Iterator[Reservation]:
        """The reservations of the ledger for a node. topology: its NodeResourceTopology, if there is one."""
        for name, one in self._on.get(node, {}).items():
            # No namespace has this name: a name of an object has no space.
            yield Reservation(f"koordinator reservation/{name}", node, _numa(one, topology), one.held, None)


def _numa(one: KoordinatorReservation, topology: NodeTopology | None) -> NumaAmounts:
    zones = () if topology is None else topology.zones
    given = dict(one.numa_nodes)
    amounts = {}
    for zone in zones:
        most = given.get(zone.id, {}) if given else one.held
        held = {
            name: min(most[name], amount)
            for name, amount in one.held.items()
            if name in most and name in zone.resources
        }
        if held:
            amounts[zone.id] = held
    return amounts


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


# Rarely do more pods end on one node between two scans.
_LATEST: Final = 8


class EndedPods:
    """The last pods that ended on each node, the latest first."""

    def __init__(self) -> None:
        self._on: dict[str, tuple[ResidentPod, ...]] = {}

    def note(self, pod: ResidentPod) -> None:
        """Record a bound pod that has ended or was deleted."""
        others = [other for other in self._on.get(pod.node, ()) if other.uid != pod.uid]
        known = len(others) < len(self._on.get(pod.node, ()))
        if pod.terminal and pod.ended_at is None:
            return  # rejected by its kubelet: it never held anything
        if known and not pod.terminal:
            return  # deleted after it ended
        later = next((n for n, other in enumerate(others) if _end(other) <= _end(pod)), len(others))
        self._on[pod.node] = (*others[:later], pod, *others[later:])[:_LATEST]

    def that_may_count(self, topology: NodeTopology, settle: float) -> Sequence[ResidentPod]:
        """The pods that may have been alive when the exporter scanned for this NRT, the last ended first.

        settle: seconds after a pod's end in which an NRT may be written that does not show the end yet.
        """
        written = topology.written_at
        return [
            pod
            for pod in self._on.get(topology.node, ())
            if written is None
            or ((pod.bound_at or 0) <= written and (pod.ended_at is None or written <= pod.ended_at + settle))
        ]


def _end(pod: ResidentPod) -> int:
    """When the pod ended. For a deleted pod that is unknown: the earliest possible time, its binding, stands for it."""
    return pod.ended_at if pod.ended_at is not None else pod.bound_at or 0


class NodeReports:
    """The current NRTs."""

    def __init__(self, pods: PodsByNode, order: BindingOrder, times: ReportingTimes) -> None:
        self._pods = pods
        self._order = order
        self._times = times
        self._topologies: dict[str, NodeTopology] = {}
        self._reported: dict[str, frozenset[str]] = {}
        self._ended = EndedPods()

    @property
    def topologies(self) -> Mapping[str, NodeTopology]:
        """The NRTs by node; a live view."""
        return self._topologies

    def topology(self, node: str) -> NodeTopology | None:
        """The node's NRT; None if it has none."""
        return self._topologies.get(node)

    def put(self, topology: NodeTopology) -> None:
        """Record a node's current NRT."""
        known = self._topologies.get(topology.node)
        if known is None or known.fingerprint != topology.fingerprint:
            self._reported.pop(topology.node, None)
        self._topologies[topology.node] = topology

    def drop(self, node: str) -> bool:
        """Remove the NRT of a node; False if it has none."""
        self._reported.pop(node, None)
        return self._topologies.pop(node, None) is not None

    def note_end(self, pod: ResidentPod) -> None:
        """Record a bound pod that has ended or was deleted."""
        self._ended.note(pod)

    def ended(self, topology: NodeTopology) -> Sequence[ResidentPod]:
        """The ended pods that the NRT may still report, the last ended first. A living pod may have the name of one."""
        bound = self._pods.bound_to(topology.node)
        shown = {pod.key for pod in bound if is_long_after(topology, pod, self._times.settle)}
        return [pod for pod in self._ended.that_may_count(topology, self._times.settle) if pod.key not in shown]

    def ambiguous(self, topology: NodeTopology, now: float) -> frozenset[str]:
        """The keys of living pods whose names the NRT may have from earlier pods, at `now`.

        Those are recreated pods, and pods from a list, which shows no earlier ones.
        """
        ended = {pod.key for pod in self.ended(topology)}
        return frozenset(
            pod.key
            for pod in self._pods.bound_to(topology.node)
            if (pod.key in ended or not self._order.known_position(pod.key))
            and not is_long_after(topology, pod, self._times.settle)
            and now < (pod.bound_at or 0) + self._times.age
        )

    def reported(self, topology: NodeTopology) -> frozenset[str] | None:
        """The keys of the pods that the NRT's fingerprint covers; None if unknown.

        Cached until the fingerprint changes.
        """
        if topology.fingerprint is None or topology.publisher is Publisher.TOTAL:
            return None
        found = self._reported.get(topology.node)
        if found is None:
            living = self._order.in_order(self._pods.bound_to(topology.node))
            method = topology.fingerprint_method
            found = reported_pods(topology.fingerprint, method, living, self.ended(topology))
            if found is not None:
                self._reported[topology.node] = found
        return found


class AssumedIndex:
    """At most one assumed pod for each pod (namespace/name)."""

    def __init__(self) -> None:
        self._pods: dict[str, AssumedPod] = {}
        self._on: dict[str, dict[str, AssumedPod]] = {}

    def get(self, key: str) -> AssumedPod | None:
        """What the pod was given and no object shows yet; None if there is nothing."""
        return self._pods.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def put(self, assumed_pod: AssumedPod) -> None:
        """Add an assumed pod. One of the same key may only be present on the same node: it is replaced."""
        self._pods[assumed_pod.pod] = assumed_pod
        self._on.setdefault(assumed_pod.node, {})[assumed_pod.pod] = assumed_pod

    def pop(self, key: str) -> AssumedPod | None:
        """Remove and return an assumed pod; None if there is none."""
        assumed_pod = self._pods.pop(key, None)
        if assumed_pod is not None:
            on_node = self._on[assumed_pod.node]
            del on_node[key]
            if not on_node:
                del self._on[assumed_pod.node]
        return assumed_pod

    def on(self, node: str) -> Iterable[AssumedPod]:
        """The assumed pods of a node, in the order in which they were assumed."""
        return self._on.get(node, {}).values()

    def binding_to(self, node: str) -> tuple[AssumedPod, ...]:
        """The assumed pods whose bindings to the node no object shows yet."""
        return tuple(assumed_pod for assumed_pod in self.on(node) if assumed_pod.is_binding)

    def all(self) -> Collection[AssumedPod]:
        """All assumed pods."""
        return self._pods.values()

    @property
    def count(self) -> int:
        """The number of assumed pods without the tentative ones: those may never be bound."""
        return sum(not assumed_pod.tentative for assumed_pod in self._pods.values())

    def expired(self, now: float) -> tuple[AssumedPod, ...]:
        """The assumed pods that have expired at `now`, on the clock of `expires`. The caller has to check them."""
        return tuple(assumed_pod for assumed_pod in self._pods.values() if assumed_pod.expires <= now)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What objects show of nodes and pods, and what this replica assumes."""

    times: ReportingTimes
    order: BindingOrder
    pods: PodsByNode
    reports: NodeReports
    assumed: AssumedIndex
    hints: BoundHints
    """The NUMA nodes of bound pods as far as they are known, and the hints that the pods should have."""
    unhinted: UnhintedPods
    held: HeldByReservations = field(default_factory=HeldByReservations)
    """What Koordinator's Reservations hold."""

    @classmethod
    def empty(cls, times: ReportingTimes) -> Self:
        """Nothing is known yet."""
        order, pods = BindingOrder(), PodsByNode()
        reports = NodeReports(pods, order, times)
        return cls(times, order, pods, reports, AssumedIndex(), BoundHints(pods.by_key), UnhintedPods(order))

    def is_assigned(self, key: str) -> bool:
        """Whether the pod is assigned, written or not, and not on its way to its kubelet."""
        if (assumed_pod := self.assumed.get(key)) is not None:
            return not (assumed_pod.is_binding or assumed_pod.tentative)
        pod = self.pods.get(key)
        return pod is not None and not pod.node

    def is_tentative(self, key: str) -> bool:
        """Whether the scheduler may still pick another node for the pod."""
        assumed_pod = self.assumed.get(key)
        return assumed_pod is not None and assumed_pod.tentative

    def reservation_of(self, assumed_pod: AssumedPod) -> Reservation:
        """What is reserved for an assumed pod, also on the NUMA nodes that it may get instead."""
        numa = self.hints.widened(assumed_pod.pod, assumed_pod.numa)
        return Reservation.of(assumed_pod.pod, assumed_pod.node, numa, assumed_pod.requests, policy=assumed_pod.policy)
