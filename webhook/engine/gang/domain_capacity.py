"""The capacity of a tree's domains for a gang of equal pods, counted in segments if it has any.

Segments of k pods: the gang has `segments` whole ones and a smaller last segment, the rest. A domain of the segments'
level with capacity for c pods holds c // k whole segments, and has c % k left over for the rest.

Domains hold the gang if they hold more whole segments than it has, or as many and one of them has enough left over
for the rest. To add this up as one number, a whole segment counts as a large unit and space for the rest as 1. The
gang needs `segments` units, plus 1 if there is a rest.

Segments in several layers: those of a coarser layer consist of whole segments of the next finer one. So the same holds
there, with the capacity of the finer layer in place of pods: see `whole` and `leftover`.
"""

from functools import cached_property

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Codes
from webhook.engine.gang.distribution import Share
from webhook.engine.gang.domain_choice import Finer
from webhook.engine.topology.tree import TopologyTree

# More than the number of domains with space left over.
_UNIT = 1 << 20


Layers = tuple[tuple[int, int], ...]
"""(level of their domains, size) of each layer of segments, from coarse to fine; () = no segments."""


class DomainCapacity:
    """The capacity of one tree for one gang."""

    def __init__(self, tree: TopologyTree, slots: Amounts, count: int, layers: Layers = ()) -> None:
        """slots: int64 [position]; count: pods to place; layers: of segments."""
        self.tree = tree
        self.slots = slots
        self.count = count
        self.layers = layers
        self.segmented = bool(layers)
        self.level, self.size = layers[0] if layers else (tree.node_level, 1)
        self.inner = DomainCapacity(tree, slots, count, layers[1:]) if layers[1:] else None
        """The next finer layer; None: these segments consist of pods."""
        self.segments, self.rest = divmod(count, self.size)
        self.unit = _UNIT if self.rest else 1
        """The number that stands for a whole segment."""
        self.wanted = self.segments * self.unit + (self.rest > 0)
        """The number that stands for the whole gang."""
        self._pods_at: dict[int, Amounts] = {tree.node_level: slots}
        self._at: dict[int, Amounts] = {}

    def cut(self, count: int) -> "DomainCapacity":
        """The capacity for fewer pods of the gang."""
        return DomainCapacity(self.tree, self.slots, count, self.layers)

    def segments_at(self, level: int) -> "DomainCapacity | None":
        """The layer whose segments the domains of a level hold; None: they hold pods, below all segments' levels."""
        if self.segmented and level <= self.level:
            return self
        return None if self.inner is None else self.inner.segments_at(level)

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
    def whole(self) -> Amounts:
        """int64 [domain of the segments' level]: whole segments that fit."""
        if self.inner is None:
            return self._pods // self.size if self.segmented else self._pods
        return self._of_inner // (self.size // self.inner.size)

    @cached_property
    def _of_inner(self) -> Amounts:
        """int64 [domain of the segments' level]: whole segments of the next finer layer that fit."""
        if self.inner is None:
            raise AssertionError("these segments consist of pods")
        return self.inner.lifted(self.level, self.inner.whole) * self.tree.real(self.level)

    @cached_property
    def leftover(self) -> Amounts:
        """int64 [domain of the segments' level]: the most pods of one smaller segment beside the whole ones.

        It consists of whole segments of the next finer layer, and one smaller one.
        """
        if self.inner is None:
            return self._pods % self.size
        smaller = _maxima(self.inner.leftover, self.tree.bounds(self.level, self.inner.level))
        whole = self._of_inner % (self.size // self.inner.size)
        return (whole * self.inner.size + smaller) * self.tree.real(self.level)

    def at(self, level: int) -> Amounts:
        """int64 [domain]: the capacity of a level's domains in segments, as `wanted` of their layer, or in pods."""
        if not self.segmented or level > self.level:
            return self.pods(level) if self.inner is None else self.inner.at(level)
        found = self._at.get(level)
        if found is None:
            found = self.lifted(level, self.whole)
            if self.rest:
                fits = (self.leftover >= self.rest).astype(np.int64)
                found = found * self.unit + np.minimum(self.lifted(level, fits), 1)
            self._at[level] = found
        return found

    def lifted(self, level: int, amounts: Amounts) -> Amounts:
        """int64 [domain]: the sums of amounts of the segments' level over the domains of a coarser one."""
        return amounts if level == self.level else self.tree.lift(self.level, level, amounts)

    def countable(self, level: int) -> tuple[Amounts, int]:
        """int64 [domain]: the capacity of a level's domains in whole segments, or in pods below them; and the need.

        The smaller last segment counts as a whole one.
        """
        layer = self.segments_at(level)
        if layer is None:
            return self.pods(level), self.count
        return layer.lifted(level, layer.whole), layer.segments + (layer.rest > 0)

    def pruned(self, level: int, least: int) -> "DomainCapacity":
        """The capacity without the domains of a level that hold less than `least`, as `countable` counts."""
        slots = self.slots * (self.countable(level)[0] >= least)[self.tree.domains(level)]
        return DomainCapacity(self.tree, slots, self.count, self.layers)

    def holds(self, level: int) -> Bools:
        """Which domains of a level hold the whole gang: bool [domain]."""
        layer = self.segments_at(level)
        fits: Bools = self.at(level) >= (self.count if layer is None else layer.wanted)
        return fits

    def most(self, level: int) -> Amounts:
        """int64 [domain]: the most pods of the gang that each domain of a level holds, in consecutive ranks."""
        layer = self.segments_at(level)
        if layer is None:
            return np.minimum(self.pods(level), self.count)
        leftover = layer.leftover
        if level < layer.level:
            leftover = _maxima(leftover, self.tree.bounds(level, layer.level))
        most: Amounts = np.minimum(layer.lifted(level, layer.whole) * layer.size + leftover, self.count)
        return most

    def most_whole(self, level: int) -> Amounts:
        """int64 [domain]: the same in whole segments."""
        layer = self.segments_at(level)
        if layer is None:
            return self.most(level)
        whole: Amounts = np.minimum(layer.lifted(level, layer.whole) * layer.size, self.count)
        return whole

    def finer(self, level: int, finer: int) -> Finer:
        """The capacity of domains at level `finer`, to choose at `level`; in segments down to their level."""
        bounds, owners = self.tree.bounds(level, finer), self.tree.owners(level, finer)
        layer = self.segments_at(finer)
        if layer is None:
            return Finer(self.pods(finer), bounds, owners, self.count)
        return Finer(layer.at(finer), bounds, owners, layer.wanted, layer.unit)

    def in_segments(self, share: Share) -> Share:
        """A share of the gang as `wanted` counts. share: pods per domain of a coarser level; one has the rest."""
        whole, rest = np.divmod(share.amounts, self.size)
        return Share(share.domains, whole * self.unit + (rest > 0))

    def in_pods(self, share: Share, within: slice, *, even: bool = False) -> tuple[Share, int | None]:
        """A share of the gang in pods, and the domain with the smaller last segment, if there is one.

        share: per domain of the segments' level, as `wanted` counts; within: the domains that may hold the last
        segment; even: where the last segment keeps them even.
        """
        if not self.rest:
            return Share(share.domains, share.amounts * self.size), None
        # The leftover is a small fraction of a unit.
        taken = (share.amounts + self.unit // 2) // self.unit * self.size
        left = (self.whole * self.size + self.leftover)[share.domains] - taken
        # A domain outside has no room.
        left[(share.domains < within.start) | (share.domains >= within.stop)] = -1
        if even:
            last = int(np.lexsort((left, taken, left < self.rest))[0])
        else:
            last = int(np.where(left >= self.rest, left, _UNIT).argmin())
        taken[last] += self.rest
        domain = int(share.domains[last])
        return Share(share.domains[taken > 0], taken[taken > 0]), domain


def _maxima(values: Amounts, bounds: Codes) -> Amounts:
    """The largest value of each slice; 0 for an empty one."""
    maxima = np.maximum.reduceat(np.append(values, 0), bounds[:-1])
    return np.where(np.diff(bounds) > 0, maxima, 0)
