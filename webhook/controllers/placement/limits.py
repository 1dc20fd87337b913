"""The settings of the placement controller."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on time and concurrency."""

    assume_ttl: float
    """Seconds after which a write that was not seen never will be."""
    concurrency: int
    """Concurrent writes to pods."""
    ungate_after: float = 0.0
    """Seconds after which a pod is ungated without an assignment; 0: never."""
    reserve_after: float = 0.0
    """Seconds after which a domain is reserved for a waiting gang; 0: never."""
    preempts: bool = False
    """Whether pods of lower priority may be ended for those that wait."""
    asks_autoscaler: bool = False
    """Whether a cluster autoscaler is shown those that wait for room."""
