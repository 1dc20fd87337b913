"""What an informer is doing, and since when it has heard of the API server."""

from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic


class Phase(StrEnum):
    """What an informer is doing."""

    STARTING = "starting"
    ABSENT = "absent"  # the server does not serve the resource: a CRD that is not installed
    LISTING = "listing"
    WATCHING = "watching"
    WAITING = "waiting"  # after a failure, for the next attempt


@dataclass(slots=True)
class InformerStatus:
    """One informer's status for /readyz and /metrics; `last_contact` is on the clock of `time.monotonic`."""

    name: str
    phase: Phase = Phase.STARTING
    synced: bool = False
    objects: int = 0
    lists: int = 0
    caught_up: bool = False
    """Whether a list or an event has come since the last failure. A reopened watch may still have events to deliver."""
    last_contact: float = field(default_factory=monotonic)
    error: str = ""

    def in_order(self) -> bool:
        """Whether what comes now was made after all that came before: a list has no such order."""
        return self.phase is Phase.WATCHING
