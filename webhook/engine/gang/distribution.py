"""Distributing pods over subdomains: as few as possible, the last one as tight as possible.

1. If the pods fill the domain completely, they fill every subdomain.
2. Otherwise subdomains are taken from the largest down (those with running members first) until the rest fits into one.
   Of those that hold equally many segments the tightest is first; ties are in tree order, so that neighbours are taken
   together.
3. For the rest, the smallest subdomain that holds it is taken instead.
Step 2 gives the minimum: no k subdomains hold more than the k largest.

If the subdomains are nodes and pods prefer some of them: the least preferred are left out if that costs no node
(`without_disliked`). Of equally large ones the preferred come first, and the rest goes to the most
preferred node that holds it.
"""

from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts, Bools, largest_first
from webhook.engine.topology.tree import TopologyTree


def without_disliked(domain_capacity: Amounts, widths: Amounts, wanted: Amounts, liked: Amounts) -> Amounts:
    """int64 [node]: the capacity, 0 for nodes that are left out because pods prefer others.

    Preference never costs a node. Of the choices with the fewest nodes, the best is the one whose least preferred node
    is preferred most: the least preferred nodes are left out as long as the others hold the pods in equally few. The
    rest is distributed as usual, from the largest node down.

    domain_capacity, liked: int64 [node], the nodes of one domain side by side; widths, wanted: int64 [domain]: its
    number of nodes, and of pods that it takes.
    """
    levels, level = np.unique(liked, return_inverse=True)
    owner = np.repeat(np.arange(len(widths)), widths)
    fewest = _needed(domain_capacity, widths, owner, wanted)
    # For each domain, bisect between a preference level with enough nodes and one without.
    enough, too_few = np.zeros(len(widths), dtype=np.int64), np.full(len(widths), len(levels), dtype=np.int64)
    while (too_few - enough > 1).any():
        middle = (enough + too_few) // 2
        holds = _needed(domain_capacity * (level >= middle[owner]), widths, owner, wanted) == fewest
        enough, too_few = np.where(holds, middle, enough), np.where(holds, too_few, middle)
    return domain_capacity * (level >= enough[owner])


def _needed(domain_capacity: Amounts, widths: Amounts, owner: Amounts, wanted: Amounts) -> Amounts:
    """int64 [domain]: how many nodes are needed, largest first; -1 if all of them do not hold what is wanted."""
    most = int(wanted.max()) + 1
    # Sorted by domain, then from the largest down; capacities above `wanted` count as `wanted`.
    keys = np.sort(owner * most + most - 1 - np.minimum(domain_capacity, wanted[owner]))
    sizes = owner * most + most - 1 - keys
    reached = sizes.cumsum()
    starts = widths.cumsum() - widths
    before = reached - sizes
    before -= before[starts][owner]
    needed = np.add.reduceat((before < wanted[owner]) & (sizes > 0), starts, dtype=np.int64)
    held = np.add.reduceat(sizes, starts)
    return np.where(held >= wanted, needed, -1)


# More than any number of pods that fit into a domain, so that a running member outweighs all capacity.
_MEMBERS_FIRST = 1 << 60


class Share(NamedTuple):
    """Pods per domain of one level, or segments as webhook.engine.gang.domain_capacity counts them.

    Both int64, domains ascending, no zero amounts.
    """

    domains: Amounts
    amounts: Amounts


class SubDomains(NamedTuple):
    """The subdomains of one level that pods are distributed over."""

    level: int
    domain_capacity: Amounts
    """int64 [domain]: the capacity of each."""
    pods: Amounts | None = None
    """int64 [domain]: the capacity in pods if `domain_capacity` counts segments."""
    anchored: Bools | None = None
    """bool [domain]: where members of the gang run; None = nowhere."""
    liked: Amounts | None = None
    """int64 [domain]: for nodes, how much each is preferred; None = all equally."""

    def some(self, domains: Amounts) -> "SubDomains":
        """A subset of them (by number)."""
        return SubDomains(
            self.level,
            self.domain_capacity.take(domains),
            None if self.pods is None else self.pods.take(domains),
            None if self.anchored is None else self.anchored.take(domains),
            None if self.liked is None else self.liked.take(domains),
        )


def distribute(tree: TopologyTree, share: Share, upper: int, among: SubDomains, *, joint: bool) -> Share:
    """The share of each subdomain, given the shares of domains of level `upper`, which have the capacity.

    joint: the domains share one amount, so the subdomains of all of them are chosen together.
    """
    below, widths = tree.below(upper, among.level, share.domains)
    amounts = among.domain_capacity.take(below)
    wanted = share.amounts
    if joint:
        widths, wanted = widths.sum(keepdims=True), wanted.sum(keepdims=True)
    partial = wanted < np.add.reduceat(amounts, widths.cumsum() - widths)
    if partial.all():
        amounts = fewest(among.some(below), widths, wanted)
    elif partial.any():
        concerned = partial.repeat(widths)
        amounts[concerned] = fewest(among.some(below[concerned]), widths[partial], wanted[partial])
    taken = amounts.nonzero()[0]
    return Share(below.take(taken), amounts.take(taken))


def fewest(among: SubDomains, widths: Amounts, wanted: Amounts) -> Amounts:
    """How much of each domain's `wanted` its subdomains take; their total capacity is larger.

    among: the subdomains, grouped by domain; widths, wanted: [domain].
    """
    domain_capacity, anchored, liked = among.domain_capacity, among.anchored, among.liked
    if liked is not None and anchored is None:
        domain_capacity = without_disliked(domain_capacity, widths, wanted, liked)
    order = _largest_first(domain_capacity, among)
    # The owner is the last key, because the sort is stable.
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
    """Step 2: the order in which subdomains are taken. Of equal ones the most preferred, then the tightest."""
    ties = [each for each in (among.pods, None if among.liked is None else -among.liked) if each is not None]
    if among.anchored is None and not ties:
        return largest_first(domain_capacity)
    size = -domain_capacity if among.anchored is None else -domain_capacity - among.anchored * _MEMBERS_FIRST
    order: Amounts = np.lexsort([*ties, size])
    return order


def _tighten(sizes: Amounts, taken: Amounts, widths: Amounts, cut: Amounts, liked: Amounts | None) -> None:
    """Step 3: replace the last subdomains `cut`, at most one of each domain, by the best after them."""
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
