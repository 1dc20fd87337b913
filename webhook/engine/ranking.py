"""Which nodes come first: by score, equal scores by name.

1. A node's rank is its score plus one, so that 0 is left for nodes that do not fit.
2. Scores that take long to find, of nodes that cannot be among the best, are left open.
3. If enough others score higher than those ever could, they stay open; else they are worked out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from webhook.engine.arrays import Bytes, Nodes


@dataclass(frozen=True, eq=False)
class Late:
    """Scores left open."""

    nodes: Nodes
    """int [L]: indexes of the nodes."""
    at_most: int
    """None of them scores higher."""
    scores: Callable[[], Bytes]
    """uint8 [L]: their scores, worked out now."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ranks of N nodes."""

    early: Bytes
    """uint8 [N]: 1..101; 0 of nodes that do not fit, and of late ones."""
    late: Late | None = None

    @classmethod
    def of(cls, n: int, nodes: Nodes, scores: Bytes, late: Late | None = None) -> "Ranking":
        """The ranking of n nodes of which some (indexes) have these scores (0..100)."""
        return cls(_with(np.zeros(n, dtype=np.uint8), nodes, scores), late)

    @cached_property
    def scores(self) -> Bytes:
        """uint8 [N]: all scores; 0 where a node does not fit."""
        scores: Bytes = np.maximum(self._ranks, 1) - np.uint8(1)
        return scores

    @cached_property
    def _ranks(self) -> Bytes:
        if self.late is None:
            return self.early
        return _with(self.early.copy(), self.late.nodes, self.late.scores())

    def best(self, k: int, order: Nodes) -> tuple[Nodes, list[int]]:
        """The k best of at least k nodes that fit: indexes, best first, and their scores.

        order: int [N], the nodes in the order of their names.
        """
        ranks = self.early
        if self.late is not None and np.count_nonzero(ranks > self.late.at_most + 1) < k:
            ranks = self._ranks
        ranks = ranks.take(order)
        smallest = len(ranks) - k
        least = np.partition(ranks, smallest)[smallest]
        (above,), (ties,) = (ranks > least).nonzero(), (ranks == least).nonzero()
        chosen = np.concatenate([above, ties[: k - len(above)]])
        chosen_ranks = ranks[chosen]
        # Stable: within a score the order of names stays.
        best_first = (255 - chosen_ranks).argsort(kind="stable")
        return order[chosen[best_first]], (chosen_ranks[best_first] - 1).tolist()


def _with(ranks: Bytes, nodes: Nodes, scores: Bytes) -> Bytes:
    ranks[nodes] = scores + np.uint8(1)
    return ranks
