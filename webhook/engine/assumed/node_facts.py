"""All that is known of the pods of each node before any reservation is computed."""

from dataclasses import dataclass, field
from typing import Self

from webhook.engine.assumed.assumed_index import AssumedIndex
from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.assumed.binding_order import BindingOrder
from webhook.engine.assumed.bound_hints import BoundHints
from webhook.engine.assumed.held_by_reservations import HeldByReservations
from webhook.engine.assumed.node_reports import NodeReports
from webhook.engine.assumed.pods_by_node import PodsByNode
from webhook.engine.assumed.unhinted import UnhintedPods
from webhook.engine.assumed.unreported import ReportingTimes
from webhook.engine.snapshot.ledger import Reservation


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
