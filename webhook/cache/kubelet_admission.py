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
from webhook.engine.snapshot.snapshot import View


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that is placed on the node and waits to be bound to it."""

    promised: Reservation
    raw: Mapping[str, Any]
    """The pod, as last seen."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The node that was chosen for a pod."""

    node: NodeAlone
    given: NodeSums
    """What its kubelet has given, or is about to give, to other pods and its NRT does not show."""
    placed: tuple[PlacedPod, ...]
    """Other pods that come sooner or later."""
    own: Reservation | None = None
    """What the pod itself is promised there."""
    leeway: Leeway = NO_LEEWAY
    """How much more, or less, may be free than that leaves."""

    def promised_view(self) -> View:
        """Less all that others were promised, each where its hint says."""
        sums = self.given.copy()
        for placed in self.placed:
            sums.add(placed.promised.numa, placed.promised.requests, placed.promised.policy, 1)
        return self.node.view(sums)

    def kubelet_view(self) -> View:
        """As the pod finds it, should it come before all that are placed."""
        return self.node.view(self._in_order())

    def other_views(self) -> Sequence[View]:
        """The same with the most, and with the least, that may be free; none where that is known exactly."""
        if not self.leeway:
            return ()
        sums = self._in_order()
        return self.node.view(self.leeway.at_most(sums)), self.node.view(self.leeway.at_least(sums))

    def _in_order(self) -> NodeSums:
        sums = self.given.copy()
        for placed in self.placed:
            sums.add({}, placed.promised.requests, None, 1)
        return sums
