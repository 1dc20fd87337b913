"""How many pods of several classes fit at once: the maximal vectors of counts, exact.

A place that holds a vector also holds every smaller one, so the maximal vectors, the Pareto front, describe it
fully.
Two places together hold the sums of what each holds. With one class, a front is one number, and this is plain
addition.
"""

from collections.abc import Iterable, Sequence
from typing import Final

Vector = tuple[int, ...]
ParetoFront = list[Vector]


class TooMuchWork(Exception):  # noqa: N818 - an outcome that callers expect, not a fault
    """The search would exceed its limit."""


# A sum or comparison of vectors of up to so many classes takes about a microsecond, of longer ones in proportion.
_CLASSES_PER_STEP: Final = 8


class Budget:
    """The remaining work of a search, in sums and comparisons of two vectors."""

    __slots__ = ("_cost", "left")

    def __init__(self, steps: int, classes: int) -> None:
        """classes: the length of the vectors."""
        self.left = steps
        self._cost = max(1, classes // _CLASSES_PER_STEP)

    def spend(self, vectors: int) -> None:
        """Count work before it is done; raises TooMuchWork if it exceeds the limit."""
        self.left -= vectors * self._cost
        if self.left < 0:
            raise TooMuchWork


def maximal(vectors: Iterable[Vector], budget: Budget) -> ParetoFront:
    """The vectors that no other one covers, largest first."""
    in_order = sorted(set(vectors), reverse=True)
    if in_order and len(in_order[0]) <= 2:
        return _maximal_pairs(in_order)
    pareto_front: ParetoFront = []
    for vector in in_order:
        budget.spend(len(pareto_front))
        if not any(covers(larger, vector) for larger in pareto_front):
            pareto_front.append(vector)
    return pareto_front


def _maximal_pairs(in_order: Sequence[Vector]) -> ParetoFront:
    """The same for one or two classes: sorted descending by the first, each must be higher in the last."""
    pareto_front: ParetoFront = []
    for vector in in_order:
        if not pareto_front or (len(vector) == 2 and vector[1] > pareto_front[-1][1]):
            pareto_front.append(vector)
    return pareto_front


def covers(larger: Vector, smaller: Vector) -> bool:
    """Whether a place that holds `larger` holds `smaller`."""
    return all(have >= need for have, need in zip(larger, smaller, strict=True))


def both(one: ParetoFront, other: ParetoFront, limit: Vector, budget: Budget) -> ParetoFront:
    """The front of two places together; no more than `limit` is needed."""
    if one == [limit] or other == [limit]:
        return [limit]
    budget.spend(len(one) * len(other))
    sums = (
        tuple(min(a + b, most) for a, b, most in zip(left, right, limit, strict=True))
        for left in one
        for right in other
    )
    return maximal(sums, budget)


def common(one: ParetoFront, other: ParetoFront, budget: Budget) -> ParetoFront:
    """The front of what both places allow."""
    budget.spend(len(one) * len(other))
    return maximal((tuple(map(min, left, right)) for left in one for right in other), budget)


def packings(free: Sequence[int], needs: Sequence[Sequence[int]], limit: Vector, budget: Budget) -> ParetoFront:
    """The front of one space. free: amount per resource; needs: amounts per class; limit: most pods of each class."""
    if not limit:
        return [()]
    most = min((have // need for have, need in zip(free, needs[0], strict=True) if need > 0), default=limit[0])
    most = max(min(most, limit[0]), 0)
    if len(limit) == 1:
        return [(most,)]
    vectors = []
    # A class that takes nothing of this space does not affect the others.
    fewest = 0 if any(needs[0]) else most
    for count in range(most, fewest - 1, -1):
        left = [have - count * need for have, need in zip(free, needs[0], strict=True)]
        rest = packings(left, needs[1:], limit[1:], budget)
        budget.spend(len(rest))
        vectors += [(count, *vector) for vector in rest]
    return maximal(vectors, budget)


def split(pareto_fronts: Sequence[ParetoFront], target: Vector, budget: Budget) -> list[Vector] | None:
    """How much of `target` each of these places takes, at most its capacity; None if they cannot hold it together."""
    zero = (0,) * len(target)
    reached: list[ParetoFront] = [[zero]]
    for pareto_front in pareto_fronts:
        reached.append(both(reached[-1], pareto_front, target, budget))
    shares: list[Vector] = []
    for before, pareto_front in zip(reversed(reached[:-1]), reversed(pareto_fronts), strict=True):
        share = _share(before, pareto_front, target)
        if share is None:
            return None
        shares.append(share)
        target = tuple(need - have for need, have in zip(target, share, strict=True))
    return shares[::-1]


def _share(before: ParetoFront, pareto_front: ParetoFront, target: Vector) -> Vector | None:
    """The smallest share of the last place for which the earlier places hold the rest."""
    for earlier in before:
        missing = tuple(max(need - have, 0) for need, have in zip(target, earlier, strict=True))
        if any(covers(vector, missing) for vector in pareto_front):
            return missing
    return None
