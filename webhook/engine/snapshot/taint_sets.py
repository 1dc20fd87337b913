"""The distinct sets of taints that exclude pods, numbered: a toleration is checked per set, not per node."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from webhook.engine.arrays import Codes
from webhook.model.node import Taint

# Effects that exclude a pod; PreferNoSchedule does not.
_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})

# Unused sets are kept until there are this many more of them than used ones: a cluster autoscaler writes the time into
# the taint of each node that it removes.
_SPARE: Final = 64


class TaintSets:
    """Numbers of sets; a returned list is only appended to."""

    def __init__(self) -> None:
        self._sets: list[tuple[Taint, ...]] = [()]
        self._numbers: dict[frozenset[Taint], int] = {frozenset(): 0}
        self._most = _SPARE

    @property
    def sets(self) -> Sequence[tuple[Taint, ...]]:
        """The sets by number; number 0 is the empty one."""
        return self._sets

    def number(self, taints: Iterable[Taint]) -> int:
        """The number of the set of excluding taints; soft ones are ignored."""
        kept = frozenset(taint for taint in taints if taint.effect in _EFFECTS)
        number = self._numbers.setdefault(kept, len(self._sets))
        if number == len(self._sets):
            self._sets.append(tuple(sorted(kept, key=lambda taint: (taint.key, taint.effect, taint.value))))
        return number

    def renewed(self, in_use: Codes) -> bool:
        """Whether the sets were reset because too few were in use: then every number must be looked up again.

        in_use: int32 [node]: the number of each node's set.
        """
        if len(self._sets) <= self._most:
            return False
        self._most = 2 * len(np.unique(in_use)) + _SPARE
        if len(self._sets) <= self._most:
            return False
        self._sets, self._numbers = [()], {frozenset(): 0}
        return True
