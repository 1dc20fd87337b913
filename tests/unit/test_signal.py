"""Subscribers are called in order. One that fails does not stop the others."""

from webhook.internal_errors import Where, internal_error_counts
from webhook.signal import Signal


class InjectedError(Exception):
    """No caller knows it."""


def test_every_subscriber_is_called_with_what_happened_in_the_order_of_subscription() -> None:
    heard: list[tuple[str, int]] = []
    signal = Signal[[int]]()
    signal.emit(0)
    signal.subscribe(lambda number: heard.append(("first", number)))
    signal.subscribe(lambda number: heard.append(("second", number)))
    signal.emit(1)
    assert heard == [("first", 1), ("second", 1)]


def test_a_failing_subscriber_is_counted_and_stops_neither_the_others_nor_the_change() -> None:
    heard: list[bool] = []

    def fails() -> None:
        raise InjectedError

    signal = Signal[[]]()
    signal.subscribe(fails)
    signal.subscribe(lambda: heard.append(True))
    before = internal_error_counts().get(Where.TASK, 0)
    signal.emit()
    assert heard == [True]
    assert internal_error_counts()[Where.TASK] == before + 1
