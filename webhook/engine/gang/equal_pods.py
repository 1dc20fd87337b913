"""Placement of a gang of equal pods: a few sums and sorts over the tree, exact.

1. Capacity: pods per node, summed up to the segments' level, rounded down to whole segments there, then summed
   upwards.
2. Domain: at the preferred level, then coarser up to the required one, those that hold the whole gang. At the first
   level with any: the one where members run; else where the gang needs the fewest domains of the preferred (or the
   segments') level, then of each finer level down to nodes; else the one whose nodes the pods prefer; else the
   tightest; else the one under the fullest parent.
3. Elastic gangs: if no domain holds all pods, the one that holds most, if that is at least the minimum; in whole
   segments if these suffice. Of equal ones the one whose nodes the pods prefer.
4. Downwards: to the preferred level, then level by level to the segments' level and to the nodes, each time into the
   fewest subdomains of all domains chosen above (webhook.engine.gang.distribution). Of such choices the one in the
   fewest domains of the levels passed over (racks, then blocks), then the one that needs the fewest further down
   (hosts), then the preferred one (webhook.engine.gang.domain_choice). The smaller last segment goes where space is
   left over.
5. Nearest: if no domain of the preferred level holds the gang, step 2 takes the domain with the largest one of that
   level, and step 4 goes from this one to the nearest (webhook.engine.gang.nearest_first).
6. Balanced: in step 2 the domain whose subdomains of the balanced level can share the gang most evenly comes first. In
   step 4 shares are even at that level and below (webhook.engine.gang.even_shares). It is the segments' level, else the
   one below the finest level of the constraint.

Capacity is additive along the tree, so step 2 finds a domain whenever any search would.
"""

from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.gang.domain_capacity import DomainCapacity
from webhook.engine.gang.domain_choice import Candidates, Key, fewest_below, least_needed
from webhook.engine.gang.equal_descent import Descent
from webhook.engine.gang.equal_gang import EqualGang, EqualPlan, EqualPods
from webhook.engine.gang.even_shares import Evenness, evenness
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.options import GangStrategy

# Eight plans in 512 nodes take a millisecond.
_SMALL = 512
_COMPARED = 8

__all__ = ["EqualPlan", "EqualPods", "assign_equal"]


def assign_equal(tree: TopologyTree, slots: Amounts, pods: EqualPods) -> EqualPlan | None:
    """The plan, or None if the pods (or their minimum) fit nowhere.

    slots: int64 [position], the pods that each node can take.
    """
    if pods.segments is None:
        return _Search(tree, pods, DomainCapacity(tree, slots, pods.count)).run()
    inner = tuple((layer.constraint.bound, layer.size) for layer in pods.segments.layers()[1:])
    for level in pods.segments.constraint.levels():
        layers = (level, pods.segments.size), *inner
        plan = _Search(tree, pods, DomainCapacity(tree, slots, pods.count, layers)).run()
        if plan is not None:
            return plan
    return None


class _Search:
    def __init__(self, tree: TopologyTree, pods: EqualPods, domain_capacity: DomainCapacity) -> None:
        self.tree = tree
        self.pods = pods
        self.domain_capacity = domain_capacity
        self.gang = EqualGang(tree, pods, domain_capacity)
        self.within = self._pinned()

    def run(self) -> EqualPlan | None:
        """Steps 2 to 4."""
        for level in self.pods.constraint.levels():
            fitting = np.flatnonzero(self._open(level) & self.domain_capacity.holds(level))
            if len(fitting):
                fitting = self._of_fewest_nodes(level, fitting)
                return Descent(self.gang).plan(Domain(level, self._choose(level, fitting)))
        bound = self.pods.constraint.bound
        for domain_capacity in (self.domain_capacity.most_whole(bound), self.domain_capacity.most(bound)):
            most = np.where(self._open(bound), domain_capacity, 0)
            if (most >= max(self.pods.minimum, 1)).any():
                best = self._most(bound, most)
                gang = replace(self.gang, domain_capacity=self.domain_capacity.cut(int(most[best])))
                return Descent(gang).plan(Domain(bound, best))
        return None

    def _of_fewest_nodes(self, level: int, fitting: Amounts) -> Amounts:
        """The domains among `fitting` whose plans have the fewest preferred domains, then blocks, then nodes.

        How many nodes these domains need is known only once they are chosen. `_choose` counts all nodes instead.
        """
        preferred, pods = self.pods.constraint.preferred, self.pods
        packs = pods.strategy is GangStrategy.BIN_PACK and pods.members is None and pods.segments is None
        if not packs or preferred is None or not level < preferred < self.tree.node_level or self.tree.n > _SMALL:
            return fitting
        needed = least_needed(fitting, self.domain_capacity.finer(level, preferred))
        fitting = fitting[needed == needed.min()]
        if not 1 < len(fitting) <= _COMPARED:
            return fitting
        levels = range(preferred - 1, level, -1)
        used = []
        for number in fitting.tolist():
            nodes = Descent(self.gang).plan(Domain(level, number)).nodes.domains
            used.append((*(len(np.unique(self.tree.domains(each)[nodes])) for each in levels), len(nodes)))
        best = min(used)
        fewest: Amounts = fitting[[each == best for each in used]]
        return fewest

    def _pinned(self) -> Domain | None:
        """The domain of the required level in which members already run."""
        members, bound = self.pods.members, self.pods.constraint.bound
        if members is None or bound == ROOT or not members.any():
            return None
        return Domain(bound, int(self.tree.sums(bound, members).argmax()))

    def _open(self, level: int) -> Bools:
        """Which domains of a level may be chosen: bool [domain]."""
        allowed = self.tree.real(level)
        if self.within is None:
            return allowed
        inside = np.zeros_like(allowed)
        inside[self.tree.under(self.within, level)] = True
        return allowed & inside

    def _choose(self, level: int, fitting: Amounts) -> int:
        """The domain to take among those of a level that hold the gang."""
        members = self.pods.members
        if members is not None and len(fitting) > 1:
            farthest = ROOT if self.pods.strategy is GangStrategy.NEAREST else level - 1
            for coarser in range(level, farthest, -1):
                beside = self.tree.sums(coarser, members)[self.tree.owners(coarser, level)[fitting]]
                fitting = fitting[beside == beside.max()]
        if len(fitting) == 1:
            return int(fitting[0])
        counted = self._counted_level(level)
        if self.pods.strategy is GangStrategy.BALANCED and level < self.tree.node_level:
            fitting = self._most_even(level, fitting)
        domain_capacity, disliked = self.domain_capacity.pods(level), self.gang.disliked(level)
        if self.pods.strategy is GangStrategy.SPREAD:
            few = [] if counted is None else [self.domain_capacity.finer(level, counted)]
            return int(
                fewest_below(
                    Candidates(fitting, domain_capacity[fitting]),
                    1,
                    0,
                    few,
                    [lambda left: -domain_capacity[left]],
                    disliked,
                )[0]
            )
        levels = self.gang.finer_levels(level)
        preferred = self.pods.constraint.preferred
        if self.pods.strategy is GangStrategy.NEAREST and preferred is not None and preferred > level:
            held = self.domain_capacity.at(preferred)
            largest = np.maximum.reduceat(held, self.tree.bounds(level, preferred)[:-1])[fitting]
            fitting = fitting[largest == largest.max()]
        if counted is not None:
            passed = [each for each in reversed(levels) if each < counted]
            levels = [counted, *passed, *(each for each in levels if each > counted)]
        finer = (self.domain_capacity.finer(level, each) for each in levels)
        above = (partial(self._capacity_above, level, coarser) for coarser in range(level - 1, ROOT, -1))
        ties: chain[Key] = chain([domain_capacity.__getitem__], above)
        return int(fewest_below(Candidates(fitting, domain_capacity[fitting]), 1, 0, finer, ties, disliked)[0])

    def _most_even(self, level: int, fitting: Amounts) -> Amounts:
        """The domains among `fitting` with the largest smallest share, then the smallest largest one."""
        balanced = self.gang.balanced_level(level)
        for_each = self._evenness(level, balanced, fitting)
        best = for_each.least == for_each.least.max()
        preferred = self.pods.constraint.preferred
        if preferred is not None and level < preferred < balanced:
            few = np.where(best, self._evenness(level, preferred, fitting).number, self.tree.n + 1)
            best &= few == few.min()
        best &= for_each.most == for_each.most[best].min()
        most_even: Amounts = fitting[best]
        return most_even

    def _evenness(self, level: int, finer: int, domains: Amounts) -> Evenness:
        """How evenly the subdomains at a finer level can share the gang, for each of some domains that hold it."""
        below, widths = self.tree.below(level, finer, domains)
        capacity, wanted = self.domain_capacity.countable(finer)
        # Where the smaller last segment needs the space beside all whole ones, it is no further one.
        held = np.add.reduceat(capacity.take(below), widths.cumsum() - widths)
        return evenness(capacity.take(below), widths, np.minimum(held, wanted))

    def _most(self, level: int, most: Amounts) -> int:
        """The domain of a level that holds most; of equal ones the preferred one."""
        disliked = self.gang.disliked(level)
        if disliked is None:
            return int(most.argmax())
        equal = np.flatnonzero(most == most.max())
        return int(equal[disliked(equal).argmin()])

    def _capacity_above(self, level: int, coarser: int, domains: Amounts) -> Amounts:
        """int64 [domain]: the capacity of each one's domain at a coarser level."""
        owners = self.tree.bounds(coarser, level).searchsorted(domains, side="right") - 1
        domain_capacity: Amounts = self.domain_capacity.pods(coarser)[owners]
        return domain_capacity

    def _counted_level(self, level: int) -> int | None:
        """The level at which few domains matter most within a domain of `level`."""
        preferred = self.pods.constraint.preferred
        if preferred is not None and preferred > level:
            return preferred
        return (
            self.domain_capacity.level
            if self.domain_capacity.segmented and self.domain_capacity.level > level
            else None
        )
