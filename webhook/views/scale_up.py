"""What a cluster autoscaler is asked for a waiting pod or gang, for people."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScaleUpView:
    """The answer to whether one more node would help."""

    asked: bool
    """Whether the autoscaler is asked."""
    text: str
    """For what node groups, or why not."""
