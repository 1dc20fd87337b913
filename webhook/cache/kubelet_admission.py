"""One node as its kubelet will have it when a pod reaches it, and what else is promised there.

A kubelet decides in the order in which pods reach it. So a pod finds taken what was given to the pods bound before it;
what is promised to pods that are placed there and wait to be bound it finds free, whatever their hints say: it may come
before them. Of the sums of the node, which have no order, those hold their requests all the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.engine.assumed.free_bounds import NO_LEEWAY, Leeway
from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.single_node import NodeAlone
from webhook.engine.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod that is placed on the node and waits to be bound to it."""

    assumed: Reservation
    raw: Mapping[str, Any]
    """The pod, as last seen."""


@dataclass(frozen=True, slots=True)
class KubeletAdmission:
    """The node that was chosen for a pod."""

    node: NodeAlone
    given: NodeSums
    """What its kubelet has given, or is about to give, to other pods and its NRT does not show."""
    assigned: tuple[AssignedPod, ...]
    """Other pods that come sooner or later."""
    own: Reservation | None = None
    """What the pod itself is promised there."""
    leeway: Leeway = NO_LEEWAY
    """How much more, or less, may be free than that leaves."""

    def assumed_snapshot(self) -> Snapshot:
        """Less all that others were promised, each where its hint says."""
        sums = self.given.copy()
        for assigned in self.assigned:
            sums.add(assigned.assumed.numa, assigned.assumed.requests, assigned.assumed.policy, 1)
        return self.node.snapshot(sums)

    def kubelet_snapshot(self) -> Snapshot:
        """As the pod finds it, should it come before all that are placed."""
        return self.node.snapshot(self._in_order())

    def other_views(self) -> Sequence[Snapshot]:
        """The same with the most, and with the least, that may be free; none where that is known exactly."""
        if not self.leeway:
            return ()
        sums = self._in_order()
        return self.node.snapshot(self.leeway.at_most(sums)), self.node.snapshot(self.leeway.at_least(sums))

    def _in_order(self) -> NodeSums:
        sums = self.given.copy()
        for assigned in self.assigned:
            sums.add({}, assigned.assumed.requests, None, 1)
        return sums
