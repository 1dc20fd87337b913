"""The nodes that are kept for gangs that have waited long: units that come later in the order get nothing there.

As the service does it (`reserve_after_seconds`): what is kept for a gang is chosen again whenever it is tried, and is
no longer kept once it has its nodes.
"""

from webhook.simulation.wanted_pod import Order, Unit, WantedGang


class KeptNodes:
    """The nodes kept for each gang."""

    def __init__(self) -> None:
        self.released: set[str] = set()
        """Nodes that are no longer kept for a gang; the caller takes them."""
        self._kept: dict[Order, frozenset[str]] = {}
        self._known: dict[tuple[Order, ...], frozenset[str]] = {}

    def closed_to(self, unit: Unit) -> frozenset[str]:
        """The nodes where the unit gets nothing."""
        if not self._kept:
            return frozenset()
        order = unit.order
        before = tuple(sorted(other for other in self._kept if other < order))
        if before not in self._known:
            self._known[before] = frozenset().union(*(self._kept[other] for other in before))
        return self._known[before]

    def keep(self, gang: WantedGang, nodes: frozenset[str]) -> None:
        """Keep these nodes for the gang, and no others."""
        order = gang.order
        before = self._kept.pop(order, frozenset())
        if nodes:
            self._kept[order] = nodes
        if nodes != before:
            self._known.clear()
            self.released |= before - nodes

    def take_released(self) -> set[str]:
        """The nodes that have been released since the last call."""
        taken, self.released = self.released, set()
        return taken
