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
   fewest subdomains of all domains chosen above (webhook.engine.gang.distribution). Of such choices the one that needs
   the fewest further down, then the preferred one (webhook.engine.gang.domain_choice). The smaller last segment goes
   where space is left over.

Capacity is additive along the tree, so step 2 finds a domain whenever any search would.
"""

from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.gang.distribution import Share, SubDomains, distribute
from webhook.engine.gang.domain_capacity import DomainCapacity
from webhook.engine.gang.domain_choice import Key, fewest_below
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, Segments
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.options import GangStrategy


@dataclass(frozen=True, slots=True, eq=False)
class EqualPods:
    """A gang of equal pods. Positions are those of the tree."""

    count: int
    """Pods to place."""
    minimum: int
    """The minimum number of pods; with fewer, none is placed."""
    constraint: Constraint = ANYWHERE
    segments: Segments | None = None
    strategy: GangStrategy = GangStrategy.BIN_PACK
    members: Amounts | None = None
    """int64 [position]: members of the gang that already run there; None = none."""
    preference: Amounts | None = None
    """int64 [position]: how much the pods prefer each node (webhook.engine.filter.node_preference); None = all equally.
    """


@dataclass(frozen=True, slots=True, eq=False)
class EqualPlan:
    """The assignment of equal pods."""

    domain: Domain
    """The domain that holds them all."""
    nodes: Share
    """Pods per position. In order of position, neighbours in rank are neighbours in the tree."""
    tail: slice | None
    """Positions of the domain with the smaller last segment: its pods come last in rank."""


def assign_equal(tree: TopologyTree, slots: Amounts, pods: EqualPods) -> EqualPlan | None:
    """The plan, or None if the pods (or their minimum) fit nowhere.

    slots: int64 [position], the pods that each node can take.
    """
    if pods.segments is None:
        return _Search(tree, pods, DomainCapacity(tree, slots, pods.count, None)).run()
    for level in pods.segments.constraint.levels():
        plan = _Search(tree, pods, DomainCapacity(tree, slots, pods.count, (level, pods.segments.size))).run()
        if plan is not None:
            return plan
    return None


class _Search:
    def __init__(self, tree: TopologyTree, pods: EqualPods, domain_capacity: DomainCapacity) -> None:
        self.tree = tree
        self.pods = pods
        self.domain_capacity = domain_capacity
        self.within = self._pinned()

    def run(self) -> EqualPlan | None:
        """Steps 2 to 4."""
        for level in self.pods.constraint.levels():
            fitting = np.flatnonzero(self._open(level) & self.domain_capacity.holds(level))
            if len(fitting):
                return self._down(Domain(level, self._choose(level, fitting)), self.domain_capacity)
        bound = self.pods.constraint.bound
        for domain_capacity in (self.domain_capacity.most_whole(bound), self.domain_capacity.most(bound)):
            most = np.where(self._open(bound), domain_capacity, 0)
            if (most >= max(self.pods.minimum, 1)).any():
                best = self._most(bound, most)
                return self._down(Domain(bound, best), self.domain_capacity.cut(int(most[best])))
        return None

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
            beside = self.tree.sums(level, members)[fitting]
            fitting = fitting[beside == beside.max()]
        if len(fitting) == 1:
            return int(fitting[0])
        counted = self._counted_level(level)
        domain_capacity, disliked = self.domain_capacity.pods(level), self._disliked(level)
        if self.pods.strategy is GangStrategy.SPREAD:
            few = [] if counted is None else [self.domain_capacity.finer(level, counted)]
            return int(
                fewest_below(
                    fitting, 1, domain_capacity[fitting], 0, few, [lambda left: -domain_capacity[left]], disliked
                )[0]
            )
        levels = self._finer_levels(level)
        if counted is not None:
            levels = [counted, *(each for each in levels if each != counted)]
        finer = (self.domain_capacity.finer(level, each) for each in levels)
        above = (partial(self._capacity_above, level, coarser) for coarser in range(level - 1, ROOT, -1))
        ties: chain[Key] = chain([domain_capacity.__getitem__], above)
        return int(fewest_below(fitting, 1, domain_capacity[fitting], 0, finer, ties, disliked)[0])

    def _most(self, level: int, most: Amounts) -> int:
        """The domain of a level that holds most; of equal ones the preferred one."""
        disliked = self._disliked(level)
        if disliked is None:
            return int(most.argmax())
        equal = np.flatnonzero(most == most.max())
        return int(equal[disliked(equal).argmin()])

    def _disliked(self, level: int) -> Key | None:
        """How little the pods prefer the nodes that they would get in each domain of a level; None: all equally."""
        if self.pods.preference is None:
            return None
        return partial(self._dislike, level, self.pods.preference)

    def _dislike(self, level: int, preference: Amounts, domains: Amounts) -> Amounts:
        """int64 [n], at most 0: minus a thousand times the mean over as many pods as each of n domains holds.

        Computed as if they were distributed directly over its nodes, ignoring levels in between.
        """
        nodes = self.tree.node_level
        if level == nodes:
            return -1000 * preference[domains]
        amounts = np.minimum(self.domain_capacity.pods(level)[domains], self.domain_capacity.count)
        among = SubDomains(nodes, self.domain_capacity.slots, liked=preference)
        distributed = distribute(self.tree, Share(domains.astype(np.int64), amounts), level, among, joint=False)
        within = self.tree.bounds(level, nodes)[domains].searchsorted(distributed.domains, side="right") - 1
        liked = np.bincount(
            within, weights=distributed.amounts * preference[distributed.domains], minlength=len(domains)
        )
        return -(1000 * liked.astype(np.int64)) // np.maximum(amounts, 1)

    def _capacity_above(self, level: int, coarser: int, domains: Amounts) -> Amounts:
        """int64 [domain]: the capacity of each one's domain at a coarser level."""
        owners = self.tree.bounds(coarser, level).searchsorted(domains, side="right") - 1
        domain_capacity: Amounts = self.domain_capacity.pods(coarser)[owners]
        return domain_capacity

    def _finer_levels(self, level: int) -> list[int]:
        """The levels below one at which few domains are wanted: down to the segments' level, from there to nodes."""
        above_segments = self.domain_capacity.segmented and level < self.domain_capacity.level
        return list(range(level + 1, (self.domain_capacity.level if above_segments else self.tree.node_level) + 1))

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

    def _down(self, domain: Domain, domain_capacity: DomainCapacity) -> EqualPlan:
        """Step 4."""
        if not domain_capacity.segmented or domain_capacity.level < domain.level:
            all_of_them = Share(np.array([domain.number]), np.array([domain_capacity.count]))
            return EqualPlan(
                domain, self._levels(all_of_them, domain.level, self.tree.node_level, domain_capacity), None
            )
        share = Share(np.array([domain.number]), np.array([domain_capacity.wanted]))
        share, last = domain_capacity.in_pods(self._levels(share, domain.level, domain_capacity.level, domain_capacity))
        tail = None if last is None else self.tree.span(Domain(domain_capacity.level, last))
        return EqualPlan(
            domain, self._levels(share, domain_capacity.level, self.tree.node_level, domain_capacity), tail
        )

    def _levels(self, share: Share, upper: int, lower: int, domain_capacity: DomainCapacity) -> Share:
        """The levels to pass: directly to the preferred one; with segments, down to their level."""
        preferred = self.pods.constraint.preferred
        while upper < lower:
            below = preferred if preferred is not None and upper < preferred <= lower else upper + 1
            members = self.pods.members
            anchored = None if members is None else self.tree.sums(below, members) > 0
            joint = not domain_capacity.segmented or below <= domain_capacity.level
            pods = domain_capacity.pods(below) if domain_capacity.segmented and joint else None
            liked = self.pods.preference if pods is None and below == self.tree.node_level else None
            among = SubDomains(below, domain_capacity.at(below), pods, anchored, liked)
            distributed = distribute(self.tree, share, upper, among, joint=joint)
            if joint and anchored is None and below < self.tree.node_level:
                distributed = self._better(share, distributed, upper, below, domain_capacity)
            share, upper = distributed, below
        return share

    def _better(self, above: Share, share: Share, upper: int, level: int, domain_capacity: DomainCapacity) -> Share:
        """As many domains of a level within those `above`, chosen to need fewer domains further down."""
        wanted = int(share.amounts.sum())
        amounts = domain_capacity.at(level)
        candidates, _ = self.tree.below(upper, level, above.domains)
        candidates = candidates[amounts.take(candidates) > 0]
        if len(candidates) == len(share.domains):
            return share
        held, disliked = amounts.take(candidates), self._disliked(level)
        finer = (domain_capacity.finer(level, each) for each in self._finer_levels(level))
        # Of domains that hold equally many segments, those with the least capacity left beside them.
        ties: list[Key] = [
            each.__getitem__
            for each in ([amounts, domain_capacity.pods(level)] if domain_capacity.segmented else [amounts])
        ]
        chosen = fewest_below(candidates, len(share.domains), held, wanted, finer, ties, disliked)
        # Largest first, as for the minimum: the smallest takes the rest.
        order = np.argsort(-amounts[chosen], kind="stable")
        taken = amounts[chosen]
        taken[order[-1]] = wanted - taken[order[:-1]].sum()
        return Share(chosen, taken)
