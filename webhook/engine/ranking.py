"""Which nodes come first: by score, equal scores by name.

1. Scores that take long to find, of nodes that cannot be among the best, are left open.
2. If enough others score higher than those ever could, they stay open; else they are worked out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Codes
from webhook.engine.numafit import Nodes


@dataclass(frozen=True, eq=False)
class Late:
    """Scores left open."""

    nodes: Nodes
    """int [L]: indexes of the nodes."""
    at_most: int
    """None of them scores higher."""
    scores: Callable[[], Amounts]
    """int64 [N]: the scores of all nodes, worked out now."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """The scores of N nodes, 0..100."""

    early: Amounts
    """int64 [N]: the scores; of late nodes they mean nothing."""
    late: Late | None = None

    @cached_property
    def scores(self) -> Amounts:
        """int64 [N]: all scores."""
        return self.early if self.late is None else self.late.scores()

    def best(self, k: int, fits: Bools, order: Codes) -> tuple[Nodes, list[int]]:
        """The k best of at least k nodes that fit (bool [N]): indexes, best first, and their scores.

        order: int32 [N], the nodes in the order of their names.
        """
        if self.late is not None:
            early = fits.copy()
            early[self.late.nodes] = False
            if np.count_nonzero(early & (self.early > self.late.at_most)) >= k:
                return _best(self.early, k, early, order)
        return _best(self.scores, k, fits, order)


def _best(scores: Amounts, k: int, fits: Bools, order: Codes) -> tuple[Nodes, list[int]]:
    # In the order of names; 0 = does not fit, 1..101 = score.
    ranks = ((scores + 1) * fits).astype(np.uint8).take(order)
    least = np.partition(ranks, len(ranks) - k)[len(ranks) - k]
    above, ties = np.flatnonzero(ranks > least), np.flatnonzero(ranks == least)
    chosen = np.concatenate([above, ties[: k - len(above)]])
    # Stable: within a score the order of names stays.
    chosen = order[chosen[np.argsort(-ranks[chosen].astype(np.int16), kind="stable")]]
    return chosen.astype(np.intp), scores[chosen].tolist()
