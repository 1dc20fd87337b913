"""When a pod last ended on a node, or came to it without a leader's review: reviews under way may not know of that.

A leader reviews a binding some time before it is seen written. What was seen in this time may have come after the
review, and the hint in the pod does not account for it.
"""

from math import inf
from typing import Final

# An API server writes a reviewed binding within the time of a request.
_REVIEW_SECONDS: Final = 60.0


class UnreviewedChanges:
    """By node, in seconds since the epoch."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def note(self, node: str, now: float) -> None:
        """Record that a pod ended there, or came without a review."""
        self._last[node] = now

    def are_recent(self, node: str, now: float) -> bool:
        """Whether a binding to the node that is seen now may have been reviewed before such a change."""
        return self._last.get(node, -inf) >= now - _REVIEW_SECONDS

    def forget_node(self, node: str) -> None:
        """Remove a node that has neither an NRT nor a pod."""
        self._last.pop(node, None)
