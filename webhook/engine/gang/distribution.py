"""Sharing out pods among sub-domains: the fewest that hold them, the last one as tight as can be.

1. A domain whose pods fill it up fills every sub-domain.
2. Otherwise sub-domains are taken from the largest down (those that hold members already come first) until the rest
   fits into one; of those that hold equally many segments the tightest; ties in tree order, so that what is taken
   together lies together.
3. For that rest the smallest sub-domain that holds it is taken instead.
Step 2 gives the fewest possible: no k sub-domains hold more than the k largest.

Where the sub-domains are nodes, of which pods prefer some: disliked ones are left out where that costs no node
(webhook.engine.gang.preferred_nodes); of equally large ones the preferred come first, and the rest goes to the most
preferred
that holds it.
"""

from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts, Bools, largest_first
from webhook.engine.gang.preferred_nodes import without_disliked
from webhook.engine.topology.tree import TopologyTree

# Above any number of pods that fit into a domain: a member there outweighs all room.
_MEMBERS_FIRST = 1 << 60


class Share(NamedTuple):
    """Pods per domain of one level, or segments as webhook.engine.gang.domain_capacity counts them.

    Both int64, domains ascending, no zero amounts.
    """

    domains: Amounts
    amounts: Amounts


class SubDomains(NamedTuple):
    """The sub-domains to share out to: those of one level."""

    level: int
    domain_capacity: Amounts
    """int64 [domain]: what each holds."""
    pods: Amounts | None = None
    """int64 [domain]: the room in pods where `domain_capacity` counts segments."""
    anchored: Bools | None = None
    """bool [domain]: where members of the group run; None = nowhere."""
    liked: Amounts | None = None
    """int64 [domain]: of nodes, how much each is preferred; None = all alike."""

    def some(self, domains: Amounts) -> "SubDomains":
        """Some of them (numbers)."""
        return SubDomains(
            self.level,
            self.domain_capacity.take(domains),
            None if self.pods is None else self.pods.take(domains),
            None if self.anchored is None else self.anchored.take(domains),
            None if self.liked is None else self.liked.take(domains),
        )


def distribute(tree: TopologyTree, share: Share, upper: int, among: SubDomains, *, joint: bool) -> Share:
    """The share of each sub-domain, given that of domains of level `upper`, which have the room.

    joint: the domains share one amount, so that the sub-domains of all of them are chosen together.
    """
    below, widths = tree.below(upper, among.level, share.domains)
    amounts = among.domain_capacity.take(below)
    wanted = share.amounts
    if joint:
        widths, wanted = widths.sum(keepdims=True), wanted.sum(keepdims=True)
    partial = wanted < np.add.reduceat(amounts, widths.cumsum() - widths)
    if partial.all():
        amounts = _fewest(among.some(below), widths, wanted)
    elif partial.any():
        concerned = partial.repeat(widths)
        amounts[concerned] = _fewest(among.some(below[concerned]), widths[partial], wanted[partial])
    taken = amounts.nonzero()[0]
    return Share(below.take(taken), amounts.take(taken))


def _fewest(among: SubDomains, widths: Amounts, wanted: Amounts) -> Amounts:
    """How much of each domain's `wanted` its sub-domains take; they hold more than that together.

    among: those of one domain side by side; widths, wanted: [domain].
    """
    domain_capacity, anchored, liked = among.domain_capacity, among.anchored, among.liked
    if liked is not None and anchored is None:
        domain_capacity = without_disliked(domain_capacity, widths, wanted, liked)
    order = _largest_first(domain_capacity, among)
    # By owner at last: the sort is stable.
    if len(widths) > 1:
        owner = np.arange(len(widths)).repeat(widths)
        order = order.take(np.argsort(owner.take(order), kind="stable"))
    sizes = domain_capacity.take(order)
    before = sizes.cumsum() - sizes
    if len(widths) > 1:
        starts = widths.cumsum() - widths
        wanted = (wanted + before.take(starts)).repeat(widths)
    taken = np.minimum(np.maximum(wanted - before, 0), sizes)
    cut = ((taken > 0) & (taken < sizes)).nonzero()[0]
    if anchored is not None:
        cut = cut[~anchored[order[cut]]]
    if len(cut):
        _tighten(sizes, taken, widths, cut, None if liked is None else liked[order])
    amounts = np.empty_like(domain_capacity)
    amounts[order] = taken
    return amounts


def _largest_first(domain_capacity: Amounts, among: SubDomains) -> Amounts:
    """Step 2: the order in which sub-domains are taken. Of equal ones the most preferred, then the tightest."""
    ties = [each for each in (among.pods, None if among.liked is None else -among.liked) if each is not None]
    if among.anchored is None and not ties:
        return largest_first(domain_capacity)
    size = -domain_capacity if among.anchored is None else -domain_capacity - among.anchored * _MEMBERS_FIRST
    order: Amounts = np.lexsort([*ties, size])
    return order


def _tighten(sizes: Amounts, taken: Amounts, widths: Amounts, cut: Amounts, liked: Amounts | None) -> None:
    """Step 3: move what was taken of the sub-domains `cut`, at most one of each domain, to the best after them."""
    ends = widths.cumsum()
    ends = ends.take(ends.searchsorted(cut, side="right"))
    rests = taken.take(cut)
    ascending = -sizes
    for at, end, rest in zip(cut.tolist(), ends.tolist(), rests.tolist(), strict=True):
        later = ascending[at:end]
        enough = int(later.searchsorted(-rest, side="right"))
        taken[at] = 0
        if liked is None:
            best = int(later.searchsorted(later[enough - 1]))
        else:
            best = int(np.lexsort((sizes[at : at + enough], -liked[at : at + enough]))[0])
        taken[at + best] = rest
