"""All that is known of a node before any reservation is computed, in one object, and the index of these objects.

- The pods that are bound or assigned to it and have not ended, and those that are assumed there.
- Its NodeResourceTopology (NRT), and which pods that reports, by their fingerprint (`reported_pods`).
- The pods that ended there, and whose resources its NRT may still show as taken. As soon as a pod has ended, a kubelet
  gives what it held to the next pod; the NRT follows with the exporter's next scan. An ended pod that is still in the
  API server shows when it ended. A deleted pod shows nothing, so it is recorded here.
- What Koordinator's Reservations hold there. Without a record of its NUMA nodes, a Reservation is kept on each NUMA
  node that has the resource: its owners may be given any of them.
- What was derived from all of these: the pods with a reservation in the ledger, and what the NRT does not report.

A fingerprint covers names, and a pod may be recreated under its name on the same node. So a covered name may still mean
the earlier pod until an NRT is written long enough after the next one was bound.

Kubelets admit pods in the order of their binding. A watch shows that order; of pods that come from a list it is
unknown.

Source: k8stopologyawareschedwg/podfingerprint; scheduler-plugins pkg/noderesourcetopology/cache.
"""

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from struct import pack
from typing import Final

from xxhash import xxh64_hexdigest, xxh64_intdigest

from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.koordinator.koordinator_reservation import KoordinatorReservation
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import FingerprintMethod, NodeTopology, Publisher
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.bound_allocations import BoundAllocations
from webhook.state.assumed.unreported import NOTHING, ReportingTimes, Unreported, is_long_after

_VERSION = "pfp0v001"


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def pod_hash(namespace: str, name: str) -> int:
    """The 64-bit hash of one pod: xxh64 of its name, seeded with xxh64 of its namespace."""
    return xxh64_intdigest(name.encode(), _namespace_seed(namespace))


def fingerprint_of_sorted(hashes: Sequence[int]) -> str:
    """The fingerprint of a set of pods: xxh64 over the sorted hashes, each as 8 little-endian bytes.

    So the order of the pods does not matter. hashes: one for each pod, ascending.
    """
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

    An exporter publishes one hash of the pods that it saw, not the pods. So the sets that it may have seen are tried:
    1. No pods at all.
    2. All pods that are alive on the node, without the 0, 1, .. 16 that were bound last.
    3. The same sets, with the 1, 2, .. pods that ended last added.
    Each set is tried with every possible meaning of the publisher's method. If none matches, the reported pods are
    unknown.

    Pods bound within the same second are tried in the order in which they were seen bound, then in the order of their
    names: a replica that has just started knows no other order. The right set may be missing among those tried. Then
    the exporter's next scan, seconds later, reports all of them.

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


@dataclass(slots=True)
class NodeState:
    """What is known of one node. Pods are identified by namespace/name."""

    topology: NodeTopology | None = None
    """Its current NRT; None if it has none."""
    pods: dict[str, ResidentPod] = field(default_factory=dict)
    """The pods bound or assigned to it, unordered."""
    assumed: dict[str, AssumedPod] = field(default_factory=dict)
    """In the order in which they were assumed."""
    ended: tuple[ResidentPod, ...] = ()
    """The last pods that ended on it, the latest first."""
    last_left: int = 0
    """The highest position in the order of binding of a pod that ended or is gone, and held something exclusively."""
    last_end_heard: float = -inf
    """When the last such end was received, in seconds since the epoch."""
    nominated: dict[str, ResidentPod] = field(default_factory=dict)
    """The pods on their way to it for which kube-scheduler keeps room there, by its sums."""
    koordinator: dict[str, KoordinatorReservation] = field(default_factory=dict)
    """What Reservations hold there, by their names."""
    reserved: dict[str, None] = field(default_factory=dict)
    """The pods with a reservation there; the ledger may have moved some to another node since."""
    unreported: Unreported = NOTHING
    """How its amounts differ from its NRT, as last derived."""
    to_admit: Sequence[ResidentPod] = ()
    """The unreported pods in the order of binding, as last derived; empty if none of them is unallocated."""
    also_observed: frozenset[str] = frozenset()
    """The unreported pods that are also reserved where a node agent saw them, as last derived."""
    covered: frozenset[str] | None = None
    """The pods that the fingerprint of its NRT covers; None if that is unknown or was not asked yet."""

    def bound(self) -> tuple[ResidentPod, ...]:
        """The pods bound to it, unordered."""
        return tuple(pod for pod in self.pods.values() if pod.node)

    def binding(self) -> tuple[AssumedPod, ...]:
        """The assumed pods whose bindings to it no object shows yet."""
        return tuple(assumed_pod for assumed_pod in self.assumed.values() if assumed_pod.is_binding)

    def report(self, topology: NodeTopology) -> None:
        """Record its current NRT."""
        if self.topology is None or self.topology.fingerprint != topology.fingerprint:
            self.covered = None
        self.topology = topology

    def note_end(self, pod: ResidentPod) -> None:
        """Record a bound pod that has ended or was deleted."""
        others = [other for other in self.ended if other.uid != pod.uid]
        known = len(others) < len(self.ended)
        if pod.terminal and pod.ended_at is None:
            return  # rejected by its kubelet: it never held anything
        if known and not pod.terminal:
            return  # deleted after it ended
        later = next((n for n, other in enumerate(others) if _end(other) <= _end(pod)), len(others))
        self.ended = (*others[:later], pod, *others[later:])[:_LATEST]

    def that_may_count(self, topology: NodeTopology, settle: float) -> Sequence[ResidentPod]:
        """The pods that may have been alive when the exporter scanned for this NRT, the last ended first.

        settle: seconds after a pod's end in which an NRT may be written that does not show the end yet.
        """
        written = topology.written_at
        return [
            pod
            for pod in self.ended
            if written is None
            or ((pod.bound_at or 0) <= written and (pod.ended_at is None or written <= pod.ended_at + settle))
        ]

    def held(self, node: str) -> Iterator[Reservation]:
        """The reservations of the ledger for what Koordinator's Reservations hold. node: its name."""
        for name, one in self.koordinator.items():
            # No namespace has this name: a name of an object has no space.
            yield Reservation(f"koordinator reservation/{name}", node, _numa(one, self.topology), one.held, None)


class BindingOrder:
    """The position of each bound pod (namespace/name)."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._last = 0
        self.gap = 0
        """The position of the last pod that came from a list. The order up to here is unknown."""

    def bound(self, pod: str) -> None:
        """Record that a pod was seen bound. The order of the calls is the order of binding."""
        self._last += 1
        self._positions[pod] = self._last

    def listed(self) -> None:
        """Record that the last pod came from a list. What happened before, and in which order, is unknown."""
        self.gap = self._last

    def forget(self, pod: str) -> int:
        """Remove a pod that is gone or has ended; returns the position that it had."""
        return self._positions.pop(pod, 0)

    def position(self, pod: str) -> int:
        """The position of the pod, also of one from a list; 0: it was not seen bound."""
        return self._positions.get(pod, 0)

    def known_position(self, pod: str) -> int:
        """The position of the pod; 0 for pods from a list, whose order is unknown."""
        position = self.position(pod)
        return position if position > self.gap else 0

    def bound_after(self, pod: str, others: Iterable[str]) -> frozenset[str]:
        """The pods among `others` that were bound after `pod`, or may have been."""
        position = self.position(pod)
        return frozenset(other for other in others if self.position(other) >= position)

    def in_order(self, pods: Iterable[ResidentPod]) -> Sequence[ResidentPod]:
        """The pods in the order in which they were seen bound. Those from a list come first, by second and name."""
        positions, gap = self._positions, self.gap

        def place(pod: ResidentPod) -> tuple[int, int, str]:
            position = positions.get(pod.key, 0)
            return position if position > gap else 0, pod.bound_at or 0, pod.key

        return sorted(pods, key=place)


def node_of(pod: ResidentPod) -> str:
    """The node that the pod is bound or assigned to; empty if there is none."""
    return pod.node or pod.assigned_node


class NodeStates:
    """The nodes by name, the pods on them by namespace/name, and the ledger's reservations."""

    def __init__(self, ledger: Ledger, times: ReportingTimes) -> None:
        self.ledger = ledger
        self.times = times
        self.order = BindingOrder()
        self.pods: dict[str, ResidentPod] = {}
        """Each pod is on the node that it is bound to, else on the one that it is assigned to."""
        self.assumed: dict[str, AssumedPod] = {}
        """At most one for each pod: what it was given and no object shows yet."""
        self.allocations = BoundAllocations(self.pods)
        """The NUMA nodes of bound pods as far as they are known, and the allocations that the pods should have."""
        self._nodes: dict[str, NodeState] = {}
        self._koordinator: dict[str, KoordinatorReservation] = {}
        self._nominated: dict[str, str] = {}

    def on(self, node: str) -> NodeState:
        """What is known of a node; only to be read."""
        return self._nodes.get(node) or NodeState()

    def at(self, node: str) -> NodeState:
        """The same, to be changed."""
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = NodeState()
        return found

    def put_pod(self, pod: ResidentPod) -> None:
        """Add the pod to its node, or replace it there. It must not be on another node."""
        self.pods[pod.key] = pod
        self.at(node_of(pod)).pods[pod.key] = pod

    def remove_pod(self, pod: ResidentPod) -> None:
        """Remove a pod from its node."""
        del self.pods[pod.key]
        del self.at(node_of(pod)).pods[pod.key]

    def put_assumed(self, assumed_pod: AssumedPod) -> None:
        """Add an assumed pod. One of the same key may only be present on the same node: it is replaced."""
        self.assumed[assumed_pod.pod] = assumed_pod
        self.at(assumed_pod.node).assumed[assumed_pod.pod] = assumed_pod

    def pop_assumed(self, key: str) -> AssumedPod | None:
        """Remove and return an assumed pod; None if there is none."""
        assumed_pod = self.assumed.pop(key, None)
        if assumed_pod is not None:
            del self.at(assumed_pod.node).assumed[key]
        return assumed_pod

    def nominate(self, pod: ResidentPod) -> set[str]:
        """Record the node that is nominated for a pod, if any; returns the nodes for which that changes something."""
        known = self._nominated.get(pod.key, "")
        if known == pod.nominated and (not known or self.on(known).nominated[pod.key] == pod):
            return set()
        changed = self.drop_nomination(pod.key)
        if pod.nominated:
            self._nominated[pod.key] = pod.nominated
            self.at(pod.nominated).nominated[pod.key] = pod
            changed.add(pod.nominated)
        return changed

    def drop_nomination(self, key: str) -> set[str]:
        """Forget the node that is nominated for a pod; returns it, if there is one."""
        node = self._nominated.pop(key, None)
        if node is None:
            return set()
        del self.at(node).nominated[key]
        return {node}

    def hold(self, one: KoordinatorReservation) -> set[str]:
        """Record a Reservation of Koordinator; returns the nodes for which that changes something."""
        if self._koordinator.get(one.name) == one:
            return set()
        changed = self.release_held(one.name)
        if one.node:
            self._koordinator[one.name] = one
            self.at(one.node).koordinator[one.name] = one
            changed.add(one.node)
        return changed

    def release_held(self, name: str) -> set[str]:
        """Remove a Reservation of Koordinator; returns its node, if it held something."""
        known = self._koordinator.pop(name, None)
        if known is None:
            return set()
        del self.at(known.node).koordinator[name]
        return {known.node}

    def drop_topology(self, node: str) -> bool:
        """Remove the NRT of a node; False if it has none."""
        known = self.on(node)
        had_one = known.topology is not None
        known.topology = known.covered = None
        if had_one and not known.pods:
            known.last_left, known.last_end_heard = 0, -inf
        return had_one

    def ended(self, topology: NodeTopology) -> Sequence[ResidentPod]:
        """The ended pods that the NRT may still report, the last ended first. A living pod may have the name of one."""
        node, settle = self.on(topology.node), self.times.settle
        shown = {pod.key for pod in node.bound() if is_long_after(topology, pod, settle)}
        return [pod for pod in node.that_may_count(topology, settle) if pod.key not in shown]

    def ambiguous(self, topology: NodeTopology, now: float) -> frozenset[str]:
        """The keys of living pods whose names the NRT may have from earlier pods, at `now`.

        Those are recreated pods, and pods from a list, which shows no earlier ones.
        """
        ended = {pod.key for pod in self.ended(topology)}
        return frozenset(
            pod.key
            for pod in self.on(topology.node).bound()
            if (pod.key in ended or not self.order.known_position(pod.key))
            and not is_long_after(topology, pod, self.times.settle)
            and now < (pod.bound_at or 0) + self.times.age
        )

    def reported(self, topology: NodeTopology) -> frozenset[str] | None:
        """The keys of the pods that the NRT's fingerprint covers; None if unknown.

        topology: the node's, or the same written at another time. Cached until the fingerprint changes.
        """
        if topology.fingerprint is None or topology.publisher is Publisher.TOTAL:
            return None
        node = self.at(topology.node)
        if node.covered is None:
            living = self.order.in_order(node.bound())
            method = topology.fingerprint_method
            node.covered = reported_pods(topology.fingerprint, method, living, self.ended(topology))
        return node.covered

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

    def reserve_assumed(self, assumed_pod: AssumedPod) -> None:
        """Reserve what an assumed pod was given, also on the NUMA nodes that it may get instead.

        What it was assigned stays reserved until a bound pod shows its binding: until then, any replica may bind it to
        that.
        """
        pod, node, requests = assumed_pod.pod, assumed_pod.node, assumed_pod.requests
        numa = self.allocations.widened(pod, assumed_pod.numa)
        shown = self.pods.get(pod)
        if shown is not None and assumed_pod.is_binding and (shown.uid, shown.assigned_node) == (assumed_pod.uid, node):
            assigned = dict(shown.allocation or ()) if shown.reserved else {}
            numa = {**numa, **{numa_id: _most(numa.get(numa_id, {}), amounts) for numa_id, amounts in assigned.items()}}
        self.reserve(Reservation.of(pod, node, numa, requests, policy=assumed_pod.policy))

    def reserve(self, reservation: Reservation) -> None:
        """Set the pod's reservation, replacing an earlier one on any node."""
        self.at(reservation.node).reserved[reservation.pod] = None
        if self.ledger.get(reservation.pod) != reservation:
            self.ledger.put(reservation)

    def release(self, pod: str, node: str) -> None:
        """Release the pod's reservation if it is on this node."""
        reservation = self.ledger.get(pod)
        if reservation is not None and reservation.node == node:
            self.ledger.release(pod)

    def replace_reservations(self, node: str, reservations: Mapping[str, Reservation], kept: Container[str]) -> None:
        """Make these the reservations of the node, by pod, and leave those of the pods in `kept` unchanged."""
        state = self.at(node)
        before, state.reserved = state.reserved, {}
        for pod in before:
            if pod in kept:
                state.reserved[pod] = None
            elif pod not in reservations:
                self.release(pod, node)
        for reservation in reservations.values():
            self.reserve(reservation)
        if state.topology is None and state == NodeState():
            del self._nodes[node]

    def reservations(self, node: str) -> Sequence[Reservation]:
        """The reservations on the node, by the names of their pods."""
        found = map(self.ledger.get, sorted(self.on(node).reserved))
        return [reservation for reservation in found if reservation is not None and reservation.node == node]


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


def _end(pod: ResidentPod) -> int:
    """When the pod ended. For a deleted pod that is unknown: the earliest possible time, its binding, stands for it."""
    return pod.ended_at if pod.ended_at is not None else pod.bound_at or 0
