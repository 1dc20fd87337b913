"""The ledger's reservations by node."""

from collections.abc import Container, Mapping, Sequence

from webhook.engine.snapshot.ledger import Ledger, Reservation


class NodeReservations:
    """Writes a ledger's reservations, and knows which pods (namespace/name) have one on a node."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._on: dict[str, dict[str, None]] = {}

    def put(self, reservation: Reservation) -> None:
        """Set the pod's reservation, replacing an earlier one on any node."""
        self._on.setdefault(reservation.node, {})[reservation.pod] = None
        if self._ledger.get(reservation.pod) != reservation:
            self._ledger.put(reservation)

    def release(self, pod: str, node: str) -> None:
        """Release the pod's reservation if it is on this node."""
        reservation = self._ledger.get(pod)
        if reservation is not None and reservation.node == node:
            self._ledger.release(pod)

    def replace(self, node: str, reservations: Mapping[str, Reservation], kept: Container[str]) -> None:
        """Make these the reservations of the node, by pod, and leave those of the pods in `kept` unchanged."""
        for pod in self._on.pop(node, {}):
            if pod in kept:
                self._on.setdefault(node, {})[pod] = None
            elif pod not in reservations:
                self.release(pod, node)
        for reservation in reservations.values():
            self.put(reservation)

    def on(self, node: str) -> Sequence[Reservation]:
        """The reservations on the node, by the names of their pods."""
        found = map(self._ledger.get, sorted(self._on.get(node, ())))
        return [reservation for reservation in found if reservation is not None and reservation.node == node]
