"""What one cycle remembers. The next one starts with nothing but the failed attempts (see `fair_order`)."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from webhook.controllers.placement.work_clock import WorkClock
from webhook.engine.decide import Decision
from webhook.kube.election import Term
from webhook.placing.fair_order import Unit
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.assignment import NoAssignment


@dataclass(slots=True)
class Cycle:
    """One cycle over the gated pods."""

    work: WorkClock
    version: Hashable
    """The version of the nodes' snapshot when the cycle began."""
    changes: int
    """The number of changes in the cluster until the cycle began."""
    term: Term | None = None
    """The term in which the cycle began. It does not go on in the next one, in which no hold is known yet."""
    assigned: int = 0
    """Pods assigned so far."""
    seconds_in_vain: float = 0.0
    """Seconds of work that led to no assignment."""
    reserved_nodes: frozenset[str] = frozenset()
    """Nodes reserved for gangs that have waited long: later units get nothing there."""
    reserving: dict[str, str] = field(default_factory=dict)
    """Namespace -> its gang that has nodes reserved. One of each: a tenant cannot close the cluster to the others by
    creating gangs (and EASY backfilling, too, reserves for the first of a queue alone).
    """
    unassigned: dict[Hashable, Decision | NoAssignment] = field(default_factory=dict)
    """Request signature -> why no pod of it was assigned: no other one is tried."""

    def basis_of(self, unit: Unit) -> Hashable:
        """What the result depends on. For a gang that is more than nodes and assumed pods, so any change counts."""
        return self.changes if isinstance(unit, GatedGang) else (self.version, self.reserved_nodes)

    def may_reserve(self, gang: GatedGang) -> bool:
        """Whether no other gang of its namespace has nodes reserved."""
        return self.reserving.get(gang.namespace, gang.membership.group) == gang.membership.group

    def reserve(self, gang: GatedGang, nodes: Iterable[str]) -> None:
        """Keep later units off the nodes that are reserved for a gang."""
        nodes = frozenset(nodes)
        if nodes and self.may_reserve(gang):
            self.reserving[gang.namespace] = gang.membership.group
            self.reserved_nodes |= nodes
