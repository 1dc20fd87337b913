"""How long to wait for the binding of an ungated pod before the next pods of its node are ungated.

A pod is usually bound some 20 ms after it is ungated, on an overloaded machine after seconds. So the wait follows what
the last pods took. A scheduler that binds nothing holds up the pods of a node for a moment only.
"""

from typing import Final

# A fresh leader has seen no binding yet: more than ten times what one takes on a machine that is not overloaded.
LEAST_SECONDS: Final = 0.25
# On an overloaded machine a scheduler's attempt and its Binding took up to 3 s. A pod that takes longer may be one that
# the scheduler cannot bind.
MOST_SECONDS: Final = 5.0
# Of what the last ones took.
_TIMES: Final = 2.0
# After a slow one: twenty quick ones later the wait is an eighth.
_KEPT_SHARE: Final = 0.9


class BindingPace:
    """The time from ungating to binding, of the last pods (uid). Times in seconds of any one clock."""

    def __init__(self) -> None:
        self._ungated: dict[str, float] = {}
        """When each was ungated, oldest first."""
        self._usual = 0.0

    @property
    def patience(self) -> float:
        """Seconds to wait for a binding."""
        return min(MOST_SECONDS, max(LEAST_SECONDS, _TIMES * self._usual))

    def ungated(self, pod: str, now: float) -> None:
        """Record that the pod was ungated, and forget those that take too long."""
        self._ungated.pop(pod, None)
        self._ungated[pod] = now
        while now - next(iter(self._ungated.values())) > MOST_SECONDS:
            del self._ungated[next(iter(self._ungated))]

    def bound_or_gone(self, pod: str, now: float) -> None:
        """Learn from a pod that is bound or gone."""
        if (since := self._ungated.pop(pod, None)) is not None:
            self._usual = max(min(now - since, MOST_SECONDS), _KEPT_SHARE * self._usual)
