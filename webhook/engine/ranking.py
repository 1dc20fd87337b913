"""Which nodes come first: by score, equal scores by name.

1. A node's rank is its score plus one, so that 0 is left for nodes that do not fit.
2. Scores that take long to find are left open; it is known how high each could be at most.
3. They are worked out from those that could be highest on, until enough nodes score higher than the rest ever could.
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
    best: int
    """None of them scores higher."""
    at_most: Callable[[], Bytes]
    """uint8 [L]: none scores higher than this, worked out now."""
    scores: Callable[[Nodes], Bytes]
    """The scores (uint8) of some of them (indexes into `nodes`), worked out now."""


class Ranking:
    """The ranks of N nodes."""

    def __init__(self, n: int, nodes: Nodes, scores: Bytes, late: Late | None = None) -> None:
        """N nodes of which some (indexes) have these scores (0..100), and others late ones."""
        self._ranks = np.zeros(n, dtype=np.uint8)
        self._ranks[nodes] = scores + np.uint8(1)
        self._late = late

    @cached_property
    def scores(self) -> Bytes:
        """uint8 [N]: all scores; 0 where a node does not fit."""
        self._settle(len(self._ranks) + 1)
        scores: Bytes = np.maximum(self._ranks, 1) - np.uint8(1)
        return scores

    def best(self, k: int, order: Nodes) -> tuple[Nodes, list[int]]:
        """The k best of at least k nodes that fit: indexes, best first, and their scores.

        order: int [N], the nodes in the order of their names.
        """
        self._settle(k)
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

    def _settle(self, k: int) -> None:
        """Work out open scores until k nodes score higher than those still open could."""
        late = self._late
        if late is None or self._above(late.best) >= k:
            return
        for at_most in sorted(self._open, reverse=True):
            if self._above(at_most) >= k:
                return
            where = self._open.pop(at_most)
            self._ranks[late.nodes[where]] = late.scores(where) + np.uint8(1)

    @cached_property
    def _open(self) -> dict[int, Nodes]:
        """The late nodes without a score yet, by how high it could be."""
        if self._late is None:
            return {}
        at_most = self._late.at_most()
        return {int(score): (at_most == score).nonzero()[0] for score in np.unique(at_most)}

    def _above(self, score: int) -> int:
        """How many nodes score higher, as far as known."""
        return int(np.count_nonzero(self._ranks > score + 1))
