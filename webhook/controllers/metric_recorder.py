"""What the controllers report for metrics. webhook.metrics implements it."""

from enum import StrEnum
from typing import Protocol


class Ungated(StrEnum):
    """How a pod was ungated: with a node, for the scheduler to choose one, without an assignment, or by the mode."""

    ASSIGNED = "assigned"
    DELEGATED = "delegated"
    TIMEOUT = "timeout"
    MODE = "mode"


class Correction(StrEnum):
    """How the allocation of a bound pod was corrected; WRITTEN: the pod had no allocation before."""

    REMOVED = "removed"
    WRITTEN = "written"
    CHANGED = "changed"


class Preemption(StrEnum):
    """How an attempt to preempt ended."""

    VICTIMS = "victims"
    """Pods were chosen, and their eviction began."""
    ENDING = "ending"
    """Pods that are being deleted are enough."""
    BESIDE = "beside"
    """Pods that end for another preemptor leave room for this one, too."""
    NO_VICTIMS = "no_victims"
    """Evicting lower-priority pods was not found to help."""
    REFUSED = "refused"
    """The API server refused to end a victim."""
    IN_VAIN = "in_vain"
    """The reserved nodes were not used: a victim did not terminate, or the preemptor could not use what was left."""
    PAUSED = "paused"
    """Pods would be chosen, but none are evicted, because too many holds had no effect."""


class ControllerMetrics(Protocol):
    """Called for each event as it happens; each call must be quick."""

    def cycle(self) -> None:
        """A placement cycle began."""

    def decided(self, unit: str, seconds: float) -> None:
        """A decision about a "pod" or a "gang" ended, whatever the result; it took this many seconds."""

    def ungated(self, how: Ungated, waited: float) -> None:
        """A pod was ungated; waited: seconds since its creation."""

    def not_aligned(self) -> None:
        """A pod that takes its policy from its owners was assigned to a node whose kubelet does not align it."""

    def evicted(self) -> None:
        """A stuck pod was evicted."""

    def preemption(self, how: Preemption) -> None:
        """An attempt to preempt ended."""

    def preempted(self, *, violates: bool) -> None:
        """A victim was evicted or deleted; violates: against a PodDisruptionBudget."""

    def allocation_backfilled(self) -> None:
        """The allocation of a pod that was bound without one was written."""

    def corrected(self, how: Correction) -> None:
        """The allocation of a bound pod was removed, written or changed."""

    def kubelet_rejected(self, reason: str, *, managed: bool) -> None:
        """A kubelet rejected a pod; managed: whether the service decides about it."""

    def gang_moved(self) -> None:
        """A gang that lost a node moves as a whole."""

    def rejected_deleted(self) -> None:
        """A rejected pod was deleted."""

    def node_avoided(self, reason: str) -> None:
        """The next pods of a controller or gang avoid a node; reason: that of the kubelet's rejection."""
