"""The capacity of a tree's domains for a gang of equal pods, counted in segments if it has any.

Segments of k pods: the gang has `segments` whole ones and a smaller last segment, the rest. A domain of the segments'
level with capacity for c pods holds c // k whole segments, and has c % k left over for the rest.

Domains hold the gang if they hold more whole segments than it has, or as many and one of them has enough left over
for the rest. To add this up as one number, a whole segment counts as a large unit and space for the rest as 1. The
gang needs `segments` units, plus 1 if there is a rest.
"""

from functools import cached_property

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Codes
from webhook.engine.gang.distribution import Share
from webhook.engine.gang.domain_choice import Finer
from webhook.engine.topology.tree import TopologyTree

# More than the number of domains with space left over.
_UNIT = 1 << 20


class DomainCapacity:
    """The capacity of one tree for one gang."""

    def __init__(self, tree: TopologyTree, slots: Amounts, count: int, segments: tuple[int, int] | None) -> None:
        """slots: int64 [position]; count: pods to place; segments: (level of their domains, size)."""
        self.tree = tree
        self.slots = slots
        self.count = count
        self.segmented = segments is not None
        self.level, self.size = segments or (tree.node_level, 1)
        self.segments, self.rest = divmod(count, self.size)
        self.unit = _UNIT if self.rest else 1
        """The number that stands for a whole segment."""
        self.wanted = self.segments * self.unit + (self.rest > 0)
        """The number that stands for the whole gang."""
        self._pods_at: dict[int, Amounts] = {tree.node_level: slots}
        self._at: dict[int, Amounts] = {}

    def cut(self, count: int) -> "DomainCapacity":
        """The capacity for fewer pods of the gang."""
        return DomainCapacity(self.tree, self.slots, count, (self.level, self.size) if self.segmented else None)

    def pods(self, level: int) -> Amounts:
        """int64 [domain]: pods that fit into the domains of a level."""
        found = self._pods_at.get(level)
        if found is None:
            found = self._pods_at[level] = self.tree.lift(level + 1, level, self.pods(level + 1))
        return found

    @cached_property
    def _pods(self) -> Amounts:
        """int64 [domain of the segments' level]: pods that fit; none in domains that cannot hold a segment."""
        pods = self.pods(self.level)
        return pods * self.tree.real(self.level) if self.segmented else pods

    @cached_property
    def _whole(self) -> Amounts:
        """int64 [domain of the segments' level]: whole segments that fit."""
        return self._pods // self.size if self.segmented else self._pods

    @cached_property
    def _leftover(self) -> Amounts:
        """int64 [domain of the segments' level]: 1 where the rest fits beside the whole segments, else 0."""
        return (self._pods % self.size >= self.rest).astype(np.int64)

    def at(self, level: int) -> Amounts:
        """int64 [domain]: the capacity of a level's domains, down to the segments' level as `wanted`, else in pods."""
        if not self.segmented or level > self.level:
            return self.pods(level)
        found = self._at.get(level)
        if found is None:
            found = self._lifted(level, self._whole)
            if self.rest:
                found = found * self.unit + np.minimum(self._lifted(level, self._leftover), 1)
            self._at[level] = found
        return found

    def _lifted(self, level: int, amounts: Amounts) -> Amounts:
        return amounts if level == self.level else self.tree.lift(self.level, level, amounts)

    def holds(self, level: int) -> Bools:
        """Which domains of a level hold the whole gang: bool [domain]."""
        fits: Bools = self.at(level) >= (self.wanted if self.segmented and level <= self.level else self.count)
        return fits

    def most(self, level: int) -> Amounts:
        """int64 [domain]: the most pods of the gang that each domain of a level holds, in consecutive ranks."""
        if not self.segmented or level > self.level:
            return np.minimum(self.pods(level), self.count)
        leftover = self._pods % self.size
        if level < self.level:
            leftover = _maxima(leftover, self.tree.bounds(level, self.level))
        most: Amounts = np.minimum(self._lifted(level, self._whole) * self.size + leftover, self.count)
        return most

    def most_whole(self, level: int) -> Amounts:
        """int64 [domain]: the same in whole segments."""
        if not self.segmented or level > self.level:
            return self.most(level)
        whole: Amounts = np.minimum(self._lifted(level, self._whole) * self.size, self.count)
        return whole

    def finer(self, level: int, finer: int) -> Finer:
        """The capacity of domains at level `finer`, to choose at `level`; in segments down to their level."""
        bounds, owners = self.tree.bounds(level, finer), self.tree.owners(level, finer)
        if self.segmented and finer <= self.level:
            return Finer(self.at(finer), bounds, owners, self.wanted, self.unit)
        return Finer(self.pods(finer), bounds, owners, self.count)

    def in_pods(self, share: Share) -> tuple[Share, int | None]:
        """A share of the gang in pods, and the domain with the smaller last segment, if there is one.

        share: per domain of the segments' level, as `wanted` counts.
        """
        if not self.rest:
            return Share(share.domains, share.amounts * self.size), None
        # The leftover is a small fraction of a unit.
        taken = (share.amounts + self.unit // 2) // self.unit * self.size
        left = self._pods[share.domains] - taken
        last = int(np.where(left >= self.rest, left, _UNIT).argmin())
        taken[last] += self.rest
        domain = int(share.domains[last])
        return Share(share.domains[taken > 0], taken[taken > 0]), domain


def _maxima(values: Amounts, bounds: Codes) -> Amounts:
    """The largest value of each slice; 0 for an empty one."""
    maxima = np.maximum.reduceat(np.append(values, 0), bounds[:-1])
    return np.where(np.diff(bounds) > 0, maxima, 0)
