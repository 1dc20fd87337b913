"""What the domains of a tree hold of a group of equal pods, counted in segments where it has any.

Segments of k pods: the group is `segments` whole ones and a rest of fewer pods. A domain of the segments' level with
room for c pods holds c // k whole segments and has c % k left over, where the rest may go.
"""

from functools import cached_property

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Codes
from webhook.engine.group.choice import Finer
from webhook.engine.group.pour import Share
from webhook.engine.tree import Domain, TopologyTree


class Room:
    """The room of one tree for one group."""

    def __init__(self, tree: TopologyTree, slots: Amounts, count: int, segments: tuple[int, int] | None) -> None:
        """slots: int64 [position]; count: pods to place; segments: (level of their domains, size)."""
        self.tree = tree
        self.slots = slots
        self.count = count
        self.segmented = segments is not None
        self.level, self.size = segments or (tree.node_level, 1)
        self.segments, self.rest = divmod(count, self.size)
        self._pods_at: dict[int, Amounts] = {}

    def cut(self, count: int) -> "Room":
        """The room for fewer pods of the group."""
        return Room(self.tree, self.slots, count, (self.level, self.size) if self.segmented else None)

    def pods(self, level: int) -> Amounts:
        """int64 [domain]: pods that fit into the domains of a level."""
        found = self._pods_at.get(level)
        if found is None:
            found = self._pods_at[level] = self.tree.sums(level, self.slots)
        return found

    @cached_property
    def _pods(self) -> Amounts:
        """int64 [domain of the segments' level]: pods that fit; none into what is not a domain for segments."""
        pods = self.pods(self.level)
        return pods * self.tree.real(self.level) if self.segmented else pods

    @cached_property
    def _whole(self) -> Amounts:
        """int64 [domain of the segments' level]: whole segments that fit."""
        return self._pods // self.size if self.segmented else self._pods

    def at(self, level: int) -> Amounts:
        """int64 [domain]: whole segments (pods, if there are none) that the domains of a level hold."""
        if not self.segmented:
            return self.pods(level)
        return self._whole if level == self.level else self.tree.lift(self.level, level, self._whole)

    def holds(self, level: int) -> Bools:
        """Which domains of a level hold the whole group: bool [domain]."""
        if not self.segmented or level > self.level:
            return self.pods(level) >= self.count
        whole = self.at(level)
        if not self.rest:
            return whole >= self.segments
        leftover = (self._pods % self.size >= self.rest).astype(np.int64)
        some = leftover if level == self.level else self.tree.lift(self.level, level, leftover)
        fits: Bools = (whole > self.segments) | ((whole == self.segments) & (some > 0))
        return fits

    def most(self, level: int) -> Amounts:
        """int64 [domain]: the most pods of the group that each domain of a level holds, in ranks without a gap."""
        if not self.segmented or level > self.level:
            return np.minimum(self.pods(level), self.count)
        leftover = self._pods % self.size
        if level < self.level:
            leftover = _maxima(leftover, self.tree.bounds(level, self.level))
        most: Amounts = np.minimum(self.at(level) * self.size + leftover, self.count)
        return most

    def most_whole(self, level: int) -> Amounts:
        """int64 [domain]: the same in whole segments."""
        if not self.segmented or level > self.level:
            return self.most(level)
        whole: Amounts = np.minimum(self.at(level) * self.size, self.count)
        return whole

    def finer(self, level: int, finer: int) -> Finer:
        """What the domains of level `finer` hold, for a choice among those of `level`; in segments down to theirs."""
        bounds = self.tree.bounds(level, finer)
        if self.segmented and finer <= self.level:
            return Finer(self.at(finer), bounds, -(-self.count // self.size))
        return Finer(self.pods(finer), bounds, self.count)

    def in_pods(self, within: Domain, share: Share) -> tuple[Share, int | None]:
        """Segments turned into pods, and the domain that takes the smaller last segment, if there is one.

        share: whole segments per domain of the segments' level, all `within` a domain that holds the group.
        """
        if not self.rest:
            return Share(share.domains, share.amounts * self.size), None
        taken = np.zeros_like(self._pods)
        taken[share.domains] = share.amounts * self.size
        left = self._pods - taken
        used = share.domains[left[share.domains] >= self.rest]
        if not len(used):
            under = self.tree.under(within, self.level)
            used = under.start + np.flatnonzero(left[under] >= self.rest)
        last = int(used[left[used].argmin()])
        taken[last] += self.rest
        domains = np.flatnonzero(taken)
        return Share(domains, taken[domains]), last


def _maxima(values: Amounts, bounds: Codes) -> Amounts:
    """The largest value of each slice; 0 for an empty one."""
    maxima = np.maximum.reduceat(np.append(values, 0), bounds[:-1])
    return np.where(np.diff(bounds) > 0, maxima, 0)
