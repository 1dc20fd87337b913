"""Reservations: what assumed pods hold that the cluster's own objects do not count yet, per NUMA node and per node.

A reservation has two halves: what the pod holds of NUMA nodes, until the node's NRT reports it, and its requests on
the node as a whole, until the pod is among the node's pods. As objects come to show the pod, `assumed_pods` replaces
the reservation by a smaller one, and finally releases it.

A pod that is only mutated has no reservation: many nodes may still become its own.

Amounts are exact integers, summed per node name. Releasing is the exact inverse of reserving, and a node that is
deleted and comes back under another index keeps its reservations.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from webhook.engine.snapshot.node_arrays import ChangeLog, NodeArrays
from webhook.engine.snapshot.node_sums import NodeSums, NumaAmounts
from webhook.engine.snapshot.overlay import Overlay, OverlayCache
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import PODS
from webhook.records import record

_NO_REQUESTS: Final[Mapping[str, int]] = MappingProxyType({})


@record
class Reservation:
    """What one pod holds on one node that the cluster does not show yet."""

    pod: str
    """namespace/name."""
    node: str
    numa: NumaAmounts
    """Empty once the node's NRT counts the pod."""
    requests: Mapping[str, int]
    """The pod's requests on the node as a whole, including itself as "pods"; empty once the node's pods include it."""
    policy: NUMAPolicy | None

    @classmethod
    def of(
        cls,
        pod: str,
        node: str,
        numa: NumaAmounts,
        requests: Mapping[str, int] | None,
        *,
        policy: NUMAPolicy | None = None,
    ) -> "Reservation":
        """A reservation with the pod itself counted as "pods".

        numa: NUMA id -> resource -> amount; requests: what the scheduler counts on the node, None if the node's pods
        include the pod already.
        """
        amounts = {zone: dict(resources) for zone, resources in numa.items()}
        whole = _NO_REQUESTS if requests is None else {**requests, PODS: 1}
        return cls(pod, node, amounts, whole, policy)


class Ledger:
    """All reservations. `Snapshot(node_arrays, ledger)` subtracts them from the arrays."""

    def __init__(self) -> None:
        self._reservations: dict[str, Reservation] = {}
        self._sums: dict[str, NodeSums] = {}
        self._changed: ChangeLog[str] = ChangeLog()
        self._overlays = OverlayCache(self._sums, self._changed)

    def __len__(self) -> int:
        return len(self._reservations)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(tuple(self._reservations.values()))

    @property
    def version(self) -> int:
        """Grows with each change."""
        return self._changed.version

    def get(self, pod: str) -> Reservation | None:
        """The reservation of the pod `namespace/name`, if it has one."""
        return self._reservations.get(pod)

    def sums(self, node: str) -> NodeSums:
        """Everything reserved on the node; read-only."""
        return self._sums.get(node) or NodeSums()

    def overlay(self, node_arrays: NodeArrays) -> Overlay | None:
        """The reservations as an overlay of the snapshot; None if there are none."""
        return self._overlays.over(node_arrays) if self._sums else None

    def put(self, reservation: Reservation) -> None:
        """Set the pod's reservation, replacing an earlier one."""
        self._take(reservation.pod)
        self._put(reservation)

    def give_back(self, node: str, ended: NumaAmounts) -> None:
        """Count as free what these NUMA nodes show as taken by ended pods, replacing the earlier value.

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

    def release(self, pod: str) -> bool:
        """Release everything reserved for the pod; False if nothing was."""
        return self._take(pod) is not None

    def _put(self, reservation: Reservation) -> None:
        self._reservations[reservation.pod] = reservation
        self._count(reservation, 1)

    def _take(self, pod: str) -> Reservation | None:
        reservation = self._reservations.pop(pod, None)
        if reservation is not None:
            self._count(reservation, -1)
        return reservation

    def _count(self, reservation: Reservation, sign: int) -> None:
        sums = self._sums.get(reservation.node)
        if sums is None:
            sums = self._sums[reservation.node] = NodeSums()
        sums.add(reservation.numa, reservation.requests, reservation.policy, sign)
        if not sums:
            del self._sums[reservation.node]
        self._changed.append((reservation.node,))
