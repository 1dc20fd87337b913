"""Observers of a change: they subscribe when they are built, and are called each time it happens.

A callback runs in the event loop, in the middle of the change. It must be quick: it sets an event, or notes something.
What it raises is logged and counted, and the others are called all the same.
Any package may import this.
"""

from collections.abc import Callable
from typing import Generic, ParamSpec

from webhook.internal_errors import Where, internal_error

Args = ParamSpec("Args")


class Signal(Generic[Args]):
    """One kind of change."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[Args, object]] = []

    def subscribe(self, callback: Callable[Args, object]) -> None:
        """Call this, too, from now on."""
        self._subscribers.append(callback)

    def emit(self, *args: Args.args, **kwargs: Args.kwargs) -> None:
        """Call all subscribers, in the order in which they subscribed."""
        for callback in self._subscribers:
            try:
                callback(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 # the change has happened, whatever its observers do
                internal_error(Where.TASK, error, subscriber=getattr(callback, "__qualname__", repr(callback)))
