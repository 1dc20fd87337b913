"""What is promised to pods and not yet counted by the cluster's own objects, per NUMA node and per node.

Life of a reservation:
1. Tentative: made when a pod is steered; short, so that two pods created together do not both count on one NUMA node.
2. Firm: made (or firmed up) when the pod is bound or placed.
3. Released in halves, as the cluster comes to show the pod: `release_node` when the pod stands among the node's pods,
   `release_numa` when the node's NRT counts it; or whole, when the pod is gone or the time is up.

No clock here: whoever reserves says until when (in seconds of the caller's own clock) and asks for what has expired.
Amounts are exact integers, summed per node name: releasing is the exact inverse of reserving, and a node that goes and
comes back under another index keeps its reservations.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from webhook.engine.changes import ChangeLog
from webhook.engine.resource_index import PODS
from webhook.model.policy import NUMAPolicy

NumaAmounts = Mapping[int, Mapping[str, int]]
"""NUMA id -> resource -> amount in engine units."""

_NOTHING: Final[Mapping[int, Mapping[str, int]]] = MappingProxyType({})
_NO_REQUESTS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one pod was promised on one node and the cluster does not show yet."""

    pod: str
    node: str
    numa: NumaAmounts
    requests: Mapping[str, int]
    """The pod's requests on the node as a whole, `pods` among them; empty once the node's pods include it."""
    policy: NUMAPolicy | None
    firm: bool
    expires: float | None
    """When it is to be looked at again, None = never by itself."""


@dataclass(slots=True)
class NodeSums:
    """All that is reserved on one node."""

    numa: dict[int, dict[str, int]] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    single: dict[int, int] = field(default_factory=dict)
    """NUMA id -> number of pods with policy SingleNUMANode."""
    multi: dict[int, int] = field(default_factory=dict)
    """NUMA id -> number of pods over several NUMA nodes."""

    def __bool__(self) -> bool:
        return bool(self.numa or self.requests or self.single or self.multi)


class Ledger:
    """All reservations. `View(snapshot, ledger)` lays them over a snapshot."""

    def __init__(self) -> None:
        self.changes: ChangeLog[str] = ChangeLog()
        """Names of the nodes whose reservations changed; its version is the ledger's."""
        self.sums: dict[str, NodeSums] = {}
        """Node name -> what is reserved there; nodes without reservations have no entry."""
        self._reservations: dict[str, Reservation] = {}

    def __len__(self) -> int:
        return len(self._reservations)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._reservations.values())

    def get(self, pod: str) -> Reservation | None:
        """The reservation of the pod `namespace/name`, if it has one."""
        return self._reservations.get(pod)

    def reserve(
        self,
        pod: str,
        node: str,
        numa: NumaAmounts,
        requests: Mapping[str, int],
        *,
        policy: NUMAPolicy | None = None,
        firm: bool = False,
        expires: float | None = None,
    ) -> None:
        """Promise the amounts to the pod, in place of whatever it was promised before. `pods` is added to `requests`."""
        self.release(pod)
        kept = {zone: dict(amounts) for zone, amounts in numa.items()}
        self._put(Reservation(pod, node, kept, {**requests, PODS: 1}, policy, firm, expires))

    def firm_up(self, pod: str, expires: float | None = None) -> bool:
        """Make a tentative reservation firm, with a new time to look at it; False if the pod has none."""
        reservation = self._reservations.get(pod)
        if reservation is None:
            return False
        self._reservations[pod] = replace(reservation, firm=True, expires=expires)
        return True

    def release(self, pod: str) -> bool:
        """Take back all that is reserved for the pod; False if nothing was."""
        return self._take(pod) is not None

    def release_numa(self, pod: str) -> bool:
        """The node's NRT counts the pod now: take back the NUMA half; False if the pod has no reservation."""
        reservation = self._take(pod)
        if reservation is None:
            return False
        if reservation.requests:
            self._put(replace(reservation, numa=_NOTHING))
        return True

    def release_node(self, pod: str) -> bool:
        """The node's pods include the pod now: take back the node's half; False if the pod has no reservation."""
        reservation = self._take(pod)
        if reservation is None:
            return False
        if reservation.numa:
            self._put(replace(reservation, requests=_NO_REQUESTS))
        return True

    def expired(self, now: float) -> tuple[Reservation, ...]:
        """Reservations whose time is up at `now`, in the order they were made."""
        return tuple(
            reservation
            for reservation in self._reservations.values()
            if reservation.expires is not None and reservation.expires <= now
        )

    def _put(self, reservation: Reservation) -> None:
        self._reservations[reservation.pod] = reservation
        self._add(reservation, 1)

    def _take(self, pod: str) -> Reservation | None:
        reservation = self._reservations.pop(pod, None)
        if reservation is not None:
            self._add(reservation, -1)
        return reservation

    def _add(self, reservation: Reservation, sign: int) -> None:
        sums = self.sums.setdefault(reservation.node, NodeSums())
        for zone, amounts in reservation.numa.items():
            zone_sums = sums.numa.setdefault(zone, {})
            add_amounts(zone_sums, amounts, sign)
            if not zone_sums:
                del sums.numa[zone]
        add_amounts(sums.requests, reservation.requests, sign)
        add_residents(sums.single, sums.multi, reservation.policy, reservation.numa, sign)
        if not sums:
            del self.sums[reservation.node]
        self.changes.append((reservation.node,))


def add_amounts(sums: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    """Add the amounts (sign 1) or take them back (sign -1). A sum of zero has no entry."""
    for resource, amount in amounts.items():
        total = sums.get(resource, 0) + sign * amount
        if total:
            sums[resource] = total
        else:
            sums.pop(resource, None)


def add_residents(
    single: dict[int, int], multi: dict[int, int], policy: NUMAPolicy | None, zones: Mapping[int, object], sign: int
) -> None:
    """Count a pod in (sign 1) or out (-1) of the NUMA nodes it lives in, by its policy and not by its cpuset.

    A SingleNUMANode pod counts as `single`; any other pod as `multi` if it spans several NUMA nodes, else not at all.
    """
    counts = single if policy is NUMAPolicy.SINGLE_NUMA_NODE else multi if len(zones) > 1 else None
    if counts is not None:
        add_amounts_by_zone(counts, zones, sign)


def add_amounts_by_zone(counts: dict[int, int], zones: Mapping[int, object], sign: int) -> None:
    """Count one pod in or out of each of the NUMA nodes. A count of zero has no entry."""
    for zone in zones:
        count = counts.get(zone, 0) + sign
        if count:
            counts[zone] = count
        else:
            counts.pop(zone, None)
