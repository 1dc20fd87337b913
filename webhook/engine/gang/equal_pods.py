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
   level, and step 4 goes from this one to the nearest (`NearestFirst`).
6. Balanced: in step 2 the domain whose subdomains of the balanced level can share the gang most evenly comes first. In
   step 4 shares are even at that level and below (`share_evenly`). It is the segments' level, else the one below the
   finest level of the constraint.

Capacity is additive along the tree, so step 2 finds a domain whenever any search would.

Source: Kueue KEP-2724, Balanced placement.
"""

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.gang.distribution import Share, SubDomains, distribute, fewest
from webhook.engine.gang.domain_capacity import DomainCapacity
from webhook.engine.gang.domain_choice import Candidates, Key, fewest_below, least_needed
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, Segments
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.options import GangStrategy


@dataclass(frozen=True, slots=True, eq=False)
class NearestFirst:
    """The strategy Nearest: the way from coarser domains to the preferred level for one gang, by distance.

    1. If a finer domain holds all that is wanted, only the one of the finest such level counts: the one that needs the
       fewest preferred domains, then the tightest.
    2. The preferred domain that holds most is first; of equal ones the one with most beside it. Then come its siblings,
       then what shares the next coarser level with it, and so on. Where members run, the one with most of them is
       first.
    3. Siblings are taken from the largest down until one holds the rest, which is distributed in it by the same steps.
       Of preferred domains the fewest are taken.

    It is the rule "the domain that can accommodate the most pods, the rest by distance".
    """

    tree: TopologyTree
    domain_capacity: DomainCapacity
    preferred: int
    members: Amounts | None
    """int64 [position]: members of the gang that already run there; None = none."""

    def share(self, share: Share, upper: int) -> Share:
        """The share of each preferred domain, given the shares of domains of level `upper`, which have the capacity."""
        taken = np.zeros(self.tree.size(self.preferred), dtype=np.int64)
        for number, wanted in zip(share.domains.tolist(), share.amounts.tolist(), strict=True):
            self._take(Domain(upper, number), wanted, taken)
        found = taken.nonzero()[0]
        return Share(found, taken[found])

    def _take(self, domain: Domain, wanted: int, taken: Amounts) -> None:
        beside = self.members is not None and self.members[self.tree.span(domain)].any()
        if not beside:
            domain = self._finest_that_holds(domain, wanted)
        inner = self._first(domain)
        if domain == inner:
            taken[domain.number] = wanted
            return
        taken[inner.number] = min(int(self._at(inner.level)[inner.number]), wanted)
        wanted -= int(taken[inner.number])
        while wanted and inner != domain:
            below = self.tree.under(self.tree.ancestor(inner, inner.level - 1), inner.level)
            siblings = np.delete(np.arange(below.start, below.stop), inner.number - below.start)
            amount = min(int(self._at(inner.level)[siblings].sum()), wanted)
            if amount:
                self._among(inner.level, siblings, amount, taken)
            wanted -= amount
            inner = self.tree.ancestor(inner, inner.level - 1)

    def _among(self, level: int, siblings: Amounts, wanted: int, taken: Amounts) -> None:
        """Step 3: take what is wanted from siblings, which hold it."""
        held = self._at(level)[siblings]
        if level == self.preferred:
            exact = held.sum() == wanted
            taken[siblings] = (
                held if exact else fewest(SubDomains(level, held), np.array([len(held)]), np.array([wanted]))
            )
            return
        order = siblings[np.argsort(-held, kind="stable")].tolist()
        while wanted:
            fitting = np.array(sorted(number for number in order if self._at(level)[number] >= wanted), dtype=np.int64)
            number = self._tightest(level, fitting, wanted) if len(fitting) else order[0]
            amount = min(int(self._at(level)[number]), wanted)
            if amount:
                self._take(Domain(level, number), amount, taken)
            order.remove(number)
            wanted -= amount

    def _finest_that_holds(self, domain: Domain, wanted: int) -> Domain:
        """Step 1."""
        for level in range(self.preferred, domain.level, -1):
            below = self.tree.under(domain, level)
            fitting = below.start + (self._at(level)[below] >= wanted).nonzero()[0]
            if len(fitting):
                return Domain(level, self._tightest(level, fitting, wanted))
        return domain

    def _first(self, domain: Domain) -> Domain:
        """Step 2: the preferred domain within another that is first."""
        below = self.tree.under(domain, self.preferred)
        keys = [
            -self._at(level)[self.tree.owners(level, self.preferred)[below]]
            for level in range(domain.level + 1, self.preferred + 1)
        ]
        if self.members is not None:
            keys.append(-self.tree.sums(self.preferred, self.members)[below])
        return Domain(self.preferred, below.start + (int(np.lexsort(keys)[0]) if keys else 0))

    def _tightest(self, level: int, fitting: Amounts, wanted: int) -> int:
        """Of domains of a level that hold what is wanted, the one that needs the fewest preferred domains."""
        finer = self.domain_capacity.finer(level, self.preferred)._replace(wanted=wanted)
        held = self._at(level)
        among = Candidates(fitting, held[fitting])
        return int(fewest_below(among, 1, wanted, [finer] * (level < self.preferred), [held.__getitem__])[0])

    def _at(self, level: int) -> Amounts:
        """int64 [domain]: the capacity of a level's domains."""
        return self.domain_capacity.at(level)


class Evenness(NamedTuple):
    """How evenly each domain's subdomains can share what it takes. All int64 [domain]."""

    number: Amounts
    """The fewest subdomains."""
    least: Amounts
    """The smallest share."""
    most: Amounts
    """The largest share."""


def evenness(domain_capacity: Amounts, widths: Amounts, wanted: Amounts) -> Evenness:
    """The best shares for each domain; its subdomains hold what is wanted.

    domain_capacity: int64 [subdomain], grouped by domain; widths, wanted: int64 [domain].
    """
    starts = widths.cumsum() - widths
    owner = np.arange(len(widths)).repeat(widths)
    sizes = domain_capacity.take(np.lexsort((-domain_capacity, owner)))
    before = sizes.cumsum() - sizes
    taken = (before - before.take(starts).take(owner) < wanted.take(owner)) & (sizes > 0)
    number = np.maximum(np.add.reduceat(taken, starts, dtype=np.int64), 1)
    least = np.minimum(wanted // number, sizes.take(starts + number - 1))
    sizes = sizes * taken
    # Bisect between a height at which they hold too little and one at which they hold enough.
    too_low, most = np.zeros_like(wanted), wanted.copy()
    while (most - too_low > 1).any():
        middle = (too_low + most) // 2
        enough = np.add.reduceat(np.minimum(sizes, middle.take(owner)), starts) >= wanted
        too_low, most = np.where(enough, too_low, middle), np.where(enough, middle, most)
    return Evenness(number, least, most)


def share_evenly(tree: TopologyTree, share: Share, upper: int, among: SubDomains, *, joint: bool) -> Share:
    """The strategy Balanced: even shares among the fewest subdomains of domains of level `upper`.

    1. k: the fewest subdomains that hold what is wanted.
    2. Of all choices of k subdomains those whose smallest share is largest, then those whose largest share is smallest.
    3. Of these the tightest, as webhook.engine.gang.distribution takes them.
    4. Each of them is filled to the same height, or completely if it holds less.

    Capacities are pods or whole segments. The k largest reach both optima of step 2: a smallest share of `least`, which
    is the k-th largest capacity or the mean, and a largest share of `most`, the height to which they are filled. So all
    choices among subdomains of at least `least`, which hold everything at height `most`, reach them, too. Kueue's rule
    fills k subdomains to `least`, and distributes the rest arbitrarily.

    share: of the domains, which have the capacity. joint: they share one amount, so the subdomains of all of them are
    chosen together.
    """
    below, widths = tree.below(upper, among.level, share.domains)
    among, wanted = among.some(below), share.amounts
    if joint:
        widths, wanted = widths.sum(keepdims=True), wanted.sum(keepdims=True)
    _, least, most = evenness(among.domain_capacity, widths, wanted)
    starts = widths.cumsum() - widths
    owner = np.arange(len(widths)).repeat(widths)
    least, most = least.take(owner), most.take(owner)
    capped = np.where(among.domain_capacity >= least, np.minimum(among.domain_capacity, most), 0)
    # Of equal ones the tightest.
    chosen = fewest(among._replace(domain_capacity=capped, pods=among.domain_capacity), widths, wanted) > 0
    amounts = np.minimum(capped, most - 1) * chosen
    missing = wanted - np.add.reduceat(amounts, starts)
    open_ones = chosen & (capped == most)
    order = open_ones.cumsum()
    order -= (order.take(starts) - open_ones.take(starts)).take(owner)
    amounts += open_ones & (order <= missing.take(owner))
    taken = amounts.nonzero()[0]
    return Share(below.take(taken), amounts.take(taken))


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
    tails: tuple[slice, ...] = ()
    """Positions of the domain with the smaller last segment: its pods come last in rank. With several layers of
    segments, one in the other."""


@dataclass(frozen=True, slots=True, eq=False)
class EqualGang:
    """A gang in a tree with the capacity for it: what both its domain and its nodes are chosen by."""

    tree: TopologyTree
    pods: EqualPods
    domain_capacity: DomainCapacity

    def finer_levels(self, level: int) -> list[int]:
        """The levels below one at which few domains are wanted: down to the segments' level, from there to nodes."""
        above_segments = self.domain_capacity.segmented and level < self.domain_capacity.level
        return list(range(level + 1, (self.domain_capacity.level if above_segments else self.tree.node_level) + 1))

    def balanced_level(self, level: int) -> int:
        """The level within domains of `level` from which on shares are even."""
        if self.domain_capacity.segmented:
            finest = self.domain_capacity.level
        else:
            finest = 1 + max(self.pods.constraint.bound, self.pods.constraint.preferred or ROOT)
        return min(max(finest, level + 1), self.tree.node_level)

    def disliked(self, level: int) -> Key | None:
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


class Descent:
    """The way down for one gang: its nodes within the domain that holds it, level by level."""

    def __init__(self, gang: EqualGang) -> None:
        self.gang = gang
        self.tree = gang.tree
        self.pods = gang.pods

    def plan(self, domain: Domain) -> EqualPlan:
        """Steps 4 to 6, within a domain that holds the gang."""
        domain_capacity = self.gang.domain_capacity
        even = self._is_even() and domain.level < self.tree.node_level
        if even:
            domain_capacity = self._without_small(domain, domain_capacity)
        layer = domain_capacity.segments_at(domain.level)
        if layer is None:
            all_of_them = Share(np.array([domain.number]), np.array([domain_capacity.count]))
            return EqualPlan(domain, self._levels(all_of_them, domain.level, self.tree.node_level, domain_capacity))
        share, upper, outer = Share(np.array([domain.number]), np.array([layer.wanted])), domain.level, layer
        last: Domain | None = domain
        tails: list[slice] = []
        while layer is not None:
            share = self._levels(share, upper, layer.level, layer, joint=layer is outer)
            # The last segment of a finer layer is the last part of that of the coarser one.
            within = slice(0, self.tree.size(layer.level)) if last is None else self.tree.under(last, layer.level)
            share, number = layer.in_pods(share, within, even=even)
            last = None if number is None else Domain(layer.level, number)
            if last is not None:
                tails.append(self.tree.span(last))
            upper, outer, layer = layer.level, layer, layer.inner
            if layer is not None:
                share = layer.in_segments(share)
        return EqualPlan(domain, self._levels(share, upper, self.tree.node_level, outer), tuple(tails))

    def _is_even(self) -> bool:
        """Whether the pods are shared evenly. Those that join running members are not: they go beside them."""
        return self.pods.strategy is GangStrategy.BALANCED and self.pods.members is None

    def _without_small(self, domain: Domain, domain_capacity: DomainCapacity) -> DomainCapacity:
        """The capacity without the subdomains of the balanced level that are smaller than the smallest share."""
        balanced = self.gang.balanced_level(domain.level)
        capacity, wanted = domain_capacity.countable(balanced)
        here = capacity[self.tree.under(domain, balanced)]
        if here.sum() < wanted:
            return domain_capacity
        least = evenness(here, np.array([len(here)]), np.array([wanted])).least
        return domain_capacity.pruned(balanced, int(least[0]))

    def _levels(
        self, share: Share, upper: int, lower: int, domain_capacity: DomainCapacity, *, joint: bool = True
    ) -> Share:
        """The levels to pass: directly to the preferred one; with segments, down to their level.

        joint: whether the domains share one amount down to the segments' level. Below it each has its own.
        """
        preferred = self.pods.constraint.preferred
        balanced = self.gang.balanced_level(upper)
        while upper < lower:
            below = preferred if preferred is not None and upper < preferred <= lower else upper + 1
            members = self.pods.members
            anchored = None if members is None else self.tree.sums(below, members) > 0
            in_segments = domain_capacity.segmented and below <= domain_capacity.level
            together = joint and (in_segments or not domain_capacity.segmented)
            pods = domain_capacity.pods(below) if in_segments else None
            liked = self.pods.preference if pods is None and below == self.tree.node_level else None
            among = SubDomains(below, domain_capacity.at(below), pods, anchored, liked)
            if self._is_even() and below >= balanced:
                first = together and below == balanced
                share, upper = self._evenly(share, upper, among, domain_capacity, joint=first), below
                continue
            if below == preferred and self.pods.strategy is GangStrategy.NEAREST:
                share, upper = NearestFirst(self.tree, domain_capacity, below, members).share(share, upper), below
                joint = False  # from here on each domain keeps its share
                continue
            distributed = distribute(self.tree, share, upper, among, joint=together)
            if together and anchored is None and below < self.tree.node_level:
                distributed = self._better(share, distributed, upper, below, domain_capacity)
            share, upper = distributed, below
        return share

    def _evenly(
        self, share: Share, upper: int, among: SubDomains, domain_capacity: DomainCapacity, *, joint: bool
    ) -> Share:
        """Step 6. Segments are counted as whole ones, also the smaller last one, if there is room for that."""
        if not domain_capacity.segmented or among.level > domain_capacity.level:
            return share_evenly(self.tree, share, upper, among, joint=joint)
        if domain_capacity.level > self.gang.domain_capacity.level:
            # Segments inside others. With a smaller last one, a capacity is not a number of them.
            spread = share_evenly if domain_capacity.unit == 1 else distribute
            return spread(self.tree, share, upper, among, joint=False)
        capacity, wanted = domain_capacity.countable(among.level)
        below, _ = self.tree.below(upper, among.level, share.domains)
        if capacity.take(below).sum() < wanted:
            return distribute(self.tree, share, upper, among, joint=joint)
        total = Share(share.domains, np.append(wanted, np.zeros(len(share.domains) - 1, dtype=np.int64)))
        shares = share_evenly(self.tree, total, upper, among._replace(domain_capacity=capacity), joint=True)
        amounts = shares.amounts * domain_capacity.unit
        if domain_capacity.rest:
            amounts[int(shares.amounts.argmax())] -= domain_capacity.unit - 1
        return Share(shares.domains, amounts)

    def _better(self, above: Share, share: Share, upper: int, level: int, domain_capacity: DomainCapacity) -> Share:
        """As many domains of a level within those `above`, chosen to need fewer domains further down."""
        wanted = int(share.amounts.sum())
        amounts = domain_capacity.at(level)
        candidates, _ = self.tree.below(upper, level, above.domains)
        candidates = candidates[amounts.take(candidates) > 0]
        if len(candidates) == len(share.domains):
            return share
        held, disliked = amounts.take(candidates), self.gang.disliked(level)
        finer = (domain_capacity.finer(level, each) for each in self.gang.finer_levels(level))
        # Of domains that hold equally many segments, those with the least capacity left beside them.
        ties: list[Key] = [
            each.__getitem__
            for each in ([amounts, domain_capacity.pods(level)] if domain_capacity.segmented else [amounts])
        ]
        passed = range(level - 1, upper, -1)
        blocks = [self.tree.owners(each, level).take(candidates) for each in passed if self.tree.size(each) > 1]
        chosen = fewest_below(Candidates(candidates, held, blocks), len(share.domains), wanted, finer, ties, disliked)
        # Largest first, as for the minimum: the smallest takes the rest.
        order = np.argsort(-amounts[chosen], kind="stable")
        taken = amounts[chosen]
        taken[order[-1]] = wanted - taken[order[:-1]].sum()
        return Share(chosen, taken)


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
