"""Distributing pods evenly over the fewest subdomains: the strategy Balanced.

1. k: the fewest subdomains that hold what is wanted.
2. Of all choices of k subdomains those whose smallest share is largest, then those whose largest share is smallest.
3. Of these the tightest, as webhook.engine.gang.distribution takes them.
4. Each of them is filled to the same height, or completely if it holds less.

Capacities are pods or whole segments. The k largest reach both optima of step 2: a smallest share of `least`, which is
the k-th largest capacity or the mean, and a largest share of `most`, the height to which they are filled. So all
choices among subdomains of at least `least`, which hold everything at height `most`, reach them, too.
Source: Kueue KEP-2724, Balanced placement. It fills k subdomains to `least`, and distributes the rest arbitrarily.
"""

from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.gang.distribution import Share, SubDomains, fewest
from webhook.engine.topology.tree import TopologyTree


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
    """The even share of each subdomain, given the shares of domains of level `upper`, which have the capacity.

    joint: the domains share one amount, so the subdomains of all of them are chosen together.
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
