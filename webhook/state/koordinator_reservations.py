"""Koordinator's Reservations in the cache."""

from collections.abc import Callable

from webhook.formats.koordinator.koordinator_reservation import KoordinatorReservation
from webhook.signal import Signal
from webhook.state.assumed.assumed_pods import AssumedPods
from webhook.state.feed import Feed


class KoordinatorReservations:
    """Passes on what they hold. changed: emitted when that changes."""

    def __init__(self, assumed_pods: AssumedPods, changed: Signal[[]]) -> None:
        self._assumed_pods = assumed_pods
        self._changed = changed
        self.feed = Feed("Reservation of Koordinator", KoordinatorReservation.from_object, self._put, self._drop)

    def _put(self, one: KoordinatorReservation) -> None:
        self._note(lambda: self._assumed_pods.hold(one))

    def _drop(self, key: str) -> None:
        self._note(lambda: self._assumed_pods.release_held(key))

    def _note(self, change: Callable[[], bool]) -> None:
        if change():
            self._changed.emit()
