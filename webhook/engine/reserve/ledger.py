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
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from webhook.engine.changes import ChangeLog
from webhook.engine.reserve.overlay import Overlay, OverlayCache
from webhook.engine.snapshot import Snapshot
from webhook.engine.sums import NodeSums, NumaAmounts
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import PODS

_NO_NUMA: Final[NumaAmounts] = MappingProxyType({})
_NO_REQUESTS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one pod was promised on one node and the cluster does not show yet."""

    pod: str
    """namespace/name."""
    node: str
    numa: NumaAmounts
    """Empty once the node's NRT counts the pod."""
    requests: Mapping[str, int]
    """The pod's requests on the node as a whole, itself among them as "pods"; empty once the node's pods include it."""
    policy: NUMAPolicy | None
    firm: bool
    expires: float | None
    """When it is to be looked at again; None = never by itself."""

    @classmethod
    def of(
        cls,
        pod: str,
        node: str,
        numa: NumaAmounts,
        requests: Mapping[str, int] | None,
        *,
        policy: NUMAPolicy | None = None,
        firm: bool = False,
        expires: float | None = None,
    ) -> "Reservation":
        """A reservation with the pod itself counted as "pods".

        numa: NUMA id -> resource -> amount; requests: what the scheduler counts on the node, None if the node's pods
        include the pod already.
        """
        amounts = {zone: dict(resources) for zone, resources in numa.items()}
        whole = _NO_REQUESTS if requests is None else {**requests, PODS: 1}
        return cls(pod, node, amounts, whole, policy, firm, expires)


class Ledger:
    """All reservations. `View(snapshot, ledger)` lays them over a snapshot."""

    def __init__(self) -> None:
        self._reservations: dict[str, Reservation] = {}
        self._sums: dict[str, NodeSums] = {}
        self._changed: ChangeLog[str] = ChangeLog()
        self._overlays = OverlayCache(self._sums, self._changed)

    def __len__(self) -> int:
        return len(self._reservations)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(tuple(self._reservations.values()))

    def get(self, pod: str) -> Reservation | None:
        """The reservation of the pod `namespace/name`, if it has one."""
        return self._reservations.get(pod)

    def sums(self, node: str) -> NodeSums:
        """All that is reserved on the node; not to be changed."""
        return self._sums.get(node) or NodeSums()

    def overlay(self, snapshot: Snapshot) -> Overlay | None:
        """The reservations laid over the snapshot; None if there are none."""
        return self._overlays.over(snapshot) if self._sums else None

    def reserve(
        self,
        pod: str,
        node: str,
        numa: NumaAmounts,
        requests: Mapping[str, int] | None,
        *,
        policy: NUMAPolicy | None = None,
        firm: bool = False,
        expires: float | None = None,
    ) -> None:
        """Promise the amounts to the pod, in place of whatever it was promised before; arguments as Reservation.of.

        policy: the pod's own policy, which decides how it counts for exclusivity.
        """
        self.put(Reservation.of(pod, node, numa, requests, policy=policy, firm=firm, expires=expires))

    def put(self, reservation: Reservation) -> None:
        """Promise this to the pod, in place of whatever it was promised before."""
        self._take(reservation.pod)
        self._put(reservation)

    def give_back(self, node: str, ended: NumaAmounts) -> None:
        """Count as free what these NUMA nodes show as taken by pods that have ended, in place of what was said before.

        Nothing becomes free beyond what a NUMA node can allocate.
        """
        sums = self._sums.get(node)
        if (sums.ended if sums is not None else {}) == ended:
            return
        sums = self._sums.setdefault(node, NodeSums())
        sums.ended = ended
        if not sums:
            del self._sums[node]
        self._changed.append((node,))

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
        """The node's NRT counts the pod now: take back the NUMA half; False if nothing was reserved."""
        reservation = self._take(pod)
        if reservation is not None and reservation.requests:
            self._put(replace(reservation, numa=_NO_NUMA))
        return reservation is not None

    def release_node(self, pod: str) -> bool:
        """The node's pods include the pod now: take back the node's half; False if nothing was reserved."""
        reservation = self._take(pod)
        if reservation is not None and reservation.numa:
            self._put(replace(reservation, requests=_NO_REQUESTS))
        return reservation is not None

    def expired(self, now: float) -> tuple[Reservation, ...]:
        """The reservations whose time is up at `now`, in the order they were made."""
        return tuple(
            reservation
            for reservation in self._reservations.values()
            if reservation.expires is not None and reservation.expires <= now
        )

    def _put(self, reservation: Reservation) -> None:
        self._reservations[reservation.pod] = reservation
        self._count(reservation, 1)

    def _take(self, pod: str) -> Reservation | None:
        reservation = self._reservations.pop(pod, None)
        if reservation is not None:
            self._count(reservation, -1)
        return reservation

    def _count(self, reservation: Reservation, sign: int) -> None:
        sums = self._sums.setdefault(reservation.node, NodeSums())
        sums.add(reservation.numa, reservation.requests, reservation.policy, sign)
        if not sums:
            del self._sums[reservation.node]
        self._changed.append((reservation.node,))
