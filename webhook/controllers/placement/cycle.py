"""What one cycle remembers. The next one starts with nothing but the failed attempts (see `fair_order`)."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from webhook.controllers.placement.assignment import NoAssignment
from webhook.controllers.placement.fair_order import Unit
from webhook.controllers.placement.gated_gang import GatedGang
from webhook.controllers.placement.work_clock import WorkClock
from webhook.engine.decide import Decision


@dataclass(slots=True)
class Cycle:
    """One cycle over the gated pods."""

    work: WorkClock
    version: Hashable
    """The version of the nodes' snapshot when the cycle began."""
    changes: int
    """The number of changes in the cluster until the cycle began."""
    assigned: int = 0
    """Pods assigned so far."""
    seconds_in_vain: float = 0.0
    """Seconds of work that led to no assignment."""
    reserved_nodes: frozenset[str] = frozenset()
    """Nodes reserved for gangs that have waited long: later units get nothing there."""
    unassigned: dict[Hashable, Decision | NoAssignment] = field(default_factory=dict)
    """Request signature -> why no pod of it was assigned: no other one is tried."""

    def basis_of(self, unit: Unit) -> Hashable:
        """What the result depends on. For a gang that is more than nodes and assumed pods, so any change counts."""
        return self.changes if isinstance(unit, GatedGang) else (self.version, self.reserved_nodes)

    def reserve(self, nodes: Iterable[str]) -> None:
        """Keep later units off these nodes."""
        self.reserved_nodes |= frozenset(nodes)
