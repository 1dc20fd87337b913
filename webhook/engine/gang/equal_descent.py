"""The nodes of a gang of equal pods within the domain that holds it, level by level.

These are steps 4 to 6 of webhook.engine.gang.equal_pods.
"""

import numpy as np

from webhook.engine.gang.distribution import Share, SubDomains, distribute
from webhook.engine.gang.domain_capacity import DomainCapacity
from webhook.engine.gang.domain_choice import Candidates, Key, fewest_below
from webhook.engine.gang.equal_gang import EqualGang, EqualPlan
from webhook.engine.gang.even_shares import evenness, share_evenly
from webhook.engine.gang.nearest_first import NearestFirst
from webhook.engine.topology.tree import Domain
from webhook.model.options import GangStrategy


class Descent:
    """The way down for one gang."""

    def __init__(self, gang: EqualGang) -> None:
        self.gang = gang
        self.tree = gang.tree
        self.pods = gang.pods

    def plan(self, domain: Domain) -> EqualPlan:
        """Steps 4 to 6 of webhook.engine.gang.equal_pods, within a domain that holds the gang."""
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
