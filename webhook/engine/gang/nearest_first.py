"""Distributing pods over the preferred level by distance: the strategy Nearest.

1. If a finer domain holds all that is wanted, only the one of the finest such level counts: the one that needs the
   fewest preferred domains, then the tightest.
2. The preferred domain that holds most is first; of equal ones the one with most beside it. Then come its siblings,
   then what shares the next coarser level with it, and so on. Where members run, the one with most of them is first.
3. Siblings are taken from the largest down until one holds the rest, which is distributed in it by the same steps. Of
   preferred domains the fewest are taken.

It is the rule "the domain that can accommodate the most pods, the rest by distance".
"""

from dataclasses import dataclass

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.gang.distribution import Share, SubDomains, fewest
from webhook.engine.gang.domain_capacity import DomainCapacity
from webhook.engine.gang.domain_choice import Candidates, fewest_below
from webhook.engine.topology.tree import Domain, TopologyTree


@dataclass(frozen=True, slots=True, eq=False)
class NearestFirst:
    """The way from coarser domains to the preferred level for one gang."""

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
