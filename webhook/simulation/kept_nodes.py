"""The nodes that are kept for gangs that have waited long: units that come later in the order get nothing there.

As the service does it (`reserve_after_seconds`): of each namespace the first gang in the order has nodes kept. They are
chosen again whenever it is tried, and are no longer kept once it has its nodes.
"""

from webhook.simulation.wanted_pod import Order, Unit, WantedGang


class KeptNodes:
    """The nodes kept for each gang."""

    def __init__(self) -> None:
        self.released: set[str] = set()
        """Nodes that are no longer kept for a gang; the caller takes them."""
        self._kept: dict[Order, frozenset[str]] = {}
        self._namespaces: dict[Order, str] = {}
        """The namespace of each of these gangs."""
        self._known: dict[tuple[Order, ...], frozenset[str]] = {}

    def may_keep(self, gang: WantedGang) -> bool:
        """Whether no gang of its namespace that comes before it has nodes kept."""
        return not any(
            order < gang.order and namespace == gang.namespace for order, namespace in self._namespaces.items()
        )

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
        before = self._forget(order)
        if nodes:
            self._kept[order] = nodes
            self._namespaces[order] = gang.namespace
            for other in [one for one, name in self._namespaces.items() if one > order and name == gang.namespace]:
                self.released |= self._forget(other)
        self.released |= before - nodes
        self._known.clear()

    def _forget(self, order: Order) -> frozenset[str]:
        self._namespaces.pop(order, None)
        return self._kept.pop(order, frozenset())

    def take_released(self) -> set[str]:
        """The nodes that have been released since the last call."""
        taken, self.released = self.released, set()
        return taken
