"""What Koordinator's Reservations hold on nodes, as reservations of the ledger.

Without a record of its NUMA nodes, a Reservation is kept on each NUMA node of its node that has the resource: its
owners may be given any of them.
"""

from collections.abc import Iterator

from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.model.koordinator_reservation import KoordinatorReservation
from webhook.model.nrt import NodeTopology


class HeldByReservations:
    """The Reservations that hold something, by node."""

    def __init__(self) -> None:
        self._by_name: dict[str, KoordinatorReservation] = {}
        self._on: dict[str, dict[str, KoordinatorReservation]] = {}

    def put(self, one: KoordinatorReservation) -> set[str]:
        """Record a Reservation; returns the nodes for which that changes something."""
        if self._by_name.get(one.name) == one:
            return set()
        changed = self.drop(one.name)
        if one.node:
            self._by_name[one.name] = one
            self._on.setdefault(one.node, {})[one.name] = one
            changed.add(one.node)
        return changed

    def drop(self, name: str) -> set[str]:
        """Remove a Reservation; returns its node, if it held something."""
        known = self._by_name.pop(name, None)
        if known is None:
            return set()
        on_node = self._on[known.node]
        del on_node[name]
        if not on_node:
            del self._on[known.node]
        return {known.node}

    def on(self, node: str, topology: NodeTopology | None) -> Iterator[Reservation]:
        """The reservations of the ledger for a node. topology: its NodeResourceTopology, if there is one."""
        for name, one in self._on.get(node, {}).items():
            # No namespace has this name: a name of an object has no space.
            yield Reservation(f"koordinator reservation/{name}", node, _numa(one, topology), one.held, None)


def _numa(one: KoordinatorReservation, topology: NodeTopology | None) -> NumaAmounts:
    zones = () if topology is None else topology.zones
    given = dict(one.numa_nodes)
    amounts = {}
    for zone in zones:
        most = given.get(zone.id, {}) if given else one.held
        held = {
            name: min(most[name], amount)
            for name, amount in one.held.items()
            if name in most and name in zone.resources
        }
        if held:
            amounts[zone.id] = held
    return amounts
