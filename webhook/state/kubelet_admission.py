"""One node as its kubelet will see it when a pod arrives, and what else is reserved there.

A kubelet admits pods in the order in which they arrive:
- What was given to pods bound before is taken.
- The NUMA nodes of pods that are assigned to the node and wait for their binding are free, whatever their hints say:
  the pod may arrive before them. The sums of the node have no order, so these pods hold their requests in them.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import NodeSums, amounts_key
from webhook.engine.snapshot.single_node import NodeAlone
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.state.assumed.free_bounds import NO_LEEWAY, Leeway


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod that is assigned to the node and waits for its binding."""

    assumed: Reservation
    raw: Mapping[str, Any]
    """The pod object, as last seen."""


@dataclass(frozen=True, slots=True)
class KubeletAdmission:
    """The state of the node that was chosen for a pod."""

    node: NodeAlone
    given: NodeSums
    """What its kubelet has given, or is about to give, to other pods and its NRT does not report."""
    assigned: tuple[AssignedPod, ...]
    """Other pods that will arrive sooner or later."""
    own: Reservation | None = None
    """What is reserved for the pod itself there; None: nothing."""
    leeway: Leeway = NO_LEEWAY
    """How much more or less may be free than `given` leaves."""

    @property
    def key(self) -> Hashable:
        """Equal for nodes whose kubelets treat a pod alike, whatever their names and those of their pods."""
        others = (one.assumed for one in self.assigned)
        assigned = Counter((amounts_key(one.numa), frozenset(one.requests.items()), one.policy) for one in others)
        return self.node.key, self.given.key, frozenset(assigned.items()), self.leeway.key

    def assumed_snapshot(self) -> Snapshot:
        """The node minus all reservations of other pods, each on the NUMA nodes of its hint."""
        sums = self.given.copy()
        for assigned in self.assigned:
            sums.add(assigned.assumed.numa, assigned.assumed.requests, assigned.assumed.policy, 1)
        return self.node.snapshot(sums)

    def kubelet_snapshot(self) -> Snapshot:
        """The node as the pod finds it if it arrives before all assigned pods."""
        return self.node.snapshot(self._in_order())

    def other_views(self) -> Sequence[Snapshot]:
        """The same with the most and with the least that may be free; empty if the free amounts are known exactly."""
        if not self.leeway:
            return ()
        sums = self._in_order()
        return self.node.snapshot(self.leeway.at_most(sums)), self.node.snapshot(self.leeway.at_least(sums))

    def _in_order(self) -> NodeSums:
        sums = self.given.copy()
        for assigned in self.assigned:
            sums.add({}, assigned.assumed.requests, None, 1)
        return sums
