"""What the controller tells of its work while it goes on; who counts it is decided elsewhere."""

from enum import StrEnum
from typing import Protocol


class Ungated(StrEnum):
    """How a pod left the gate."""

    ASSIGNED = "assigned"
    DELEGATED = "delegated"
    TIMEOUT = "timeout"


class Correction(StrEnum):
    """What became of a bound pod's hint."""

    REMOVED = "removed"
    WRITTEN = "written"
    CHANGED = "changed"


class ControllerMetrics(Protocol):
    """Told of what happens as it happens; each call must be quick."""

    def round(self) -> None:
        """A round has begun."""

    def decided(self, unit: str, seconds: float) -> None:
        """A "pod" or a "group" was decided on, whatever came out."""

    def ungated(self, how: Ungated, waited: float) -> None:
        """A pod's gate is away, so many seconds after its creation."""

    def not_aligned(self) -> None:
        """A pod was placed whose policy stands on its owners, and that its node's kubelet does not align."""

    def evicted(self) -> None:
        """A stuck pod was evicted."""

    def hint_backfilled(self) -> None:
        """A pod that was bound without a hint has one."""

    def corrected(self, how: Correction) -> None:
        """The hint of a bound pod is not what it was."""
