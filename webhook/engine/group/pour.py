"""Sharing out pods among sub-domains: the fewest that hold them, the last one as tight as can be.

1. A domain whose pods fill it up fills every sub-domain.
2. Otherwise sub-domains are taken from the largest down (those that hold members already come first) until the rest
   fits into one; of those that hold equally many segments the tightest; ties in tree order, so that what is taken
   together lies together.
3. For that rest the smallest sub-domain that holds it is taken instead.
Step 2 gives the fewest possible: no k sub-domains hold more than the k largest.

Where the sub-domains are nodes, of which pods prefer some: disliked ones are left out where that costs no node
(webhook.engine.group.liked); of equally large ones the preferred come first, and the rest goes to the most preferred
that holds it.
"""

from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.group.liked import without_disliked
from webhook.engine.tree import TopologyTree

# Above any number of pods that fit into a domain: a member there outweighs all room.
_MEMBERS_FIRST = 1 << 60


class Share(NamedTuple):
    """Pods per domain of one level, or segments as webhook.engine.group.room counts them.

    Both int64, domains ascending, no zero amounts.
    """

    domains: Amounts
    amounts: Amounts


class SubDomains(NamedTuple):
    """The sub-domains to share out to: those of one level."""

    level: int
    room: Amounts
    """int64 [domain]: what each holds."""
    pods: Amounts | None = None
    """int64 [domain]: the room in pods where `room` counts segments."""
    anchored: Bools | None = None
    """bool [domain]: where members of the group run; None = nowhere."""
    liked: Amounts | None = None
    """int64 [domain]: of nodes, how much each is preferred; None = all alike."""

    def some(self, domains: Amounts) -> "SubDomains":
        """Some of them (numbers)."""
        return SubDomains(
            self.level,
            self.room[domains],
            None if self.pods is None else self.pods[domains],
            None if self.anchored is None else self.anchored[domains],
            None if self.liked is None else self.liked[domains],
        )


def pour(tree: TopologyTree, share: Share, upper: int, among: SubDomains, *, joint: bool) -> Share:
    """The share of each sub-domain, given that of domains of level `upper`, which have the room.

    joint: the domains share one amount, so that the sub-domains of all of them are chosen together.
    """
    bounds = tree.bounds(upper, among.level)
    first = bounds[share.domains].astype(np.int64)
    widths = bounds[share.domains + 1] - first
    starts = widths.cumsum() - widths
    below = np.arange(starts[-1] + widths[-1]) + np.repeat(first - starts, widths)
    amounts = among.room[below]
    wanted = share.amounts
    if joint:
        starts, widths, wanted = starts[:1], widths.sum(keepdims=True), wanted.sum(keepdims=True)
    partial = wanted < np.add.reduceat(amounts, starts)
    if partial.any():
        concerned = np.repeat(partial, widths)
        amounts[concerned] = _fewest(among.some(below[concerned]), widths[partial], wanted[partial])
    taken = amounts > 0
    return Share(below[taken], amounts[taken])


def _fewest(among: SubDomains, widths: Amounts, wanted: Amounts) -> Amounts:
    """How much of each domain's `wanted` its sub-domains take; they hold more than that together.

    among: those of one domain side by side; widths, wanted: [domain].
    """
    room, anchored, liked = among.room, among.anchored, among.liked
    if liked is not None and anchored is None:
        room = without_disliked(room, widths, wanted, liked)
    starts = widths.cumsum() - widths
    owner = np.repeat(np.arange(len(widths)), widths)
    order = _largest_first(room, among)
    # By owner at last: the sort is stable.
    if len(widths) > 1:
        order = order[np.argsort(owner[order], kind="stable")]
    sizes = room[order]
    reached = sizes.cumsum()
    before = reached - sizes
    before -= before[starts][owner]
    taken = np.clip(wanted[owner] - before, 0, sizes)
    cut = np.flatnonzero((taken > 0) & (taken < sizes))
    if anchored is not None:
        cut = cut[~anchored[order[cut]]]
    if len(cut):
        _tighten(sizes, taken, starts, owner, cut, None if liked is None else liked[order])
    amounts = np.empty_like(room)
    amounts[order] = taken
    return amounts


def _largest_first(room: Amounts, among: SubDomains) -> Amounts:
    """Step 2: the order in which sub-domains are taken. Of equal ones the most preferred, then the tightest."""
    size = -room if among.anchored is None else -room - among.anchored * _MEMBERS_FIRST
    ties = [each for each in (among.pods, None if among.liked is None else -among.liked) if each is not None]
    order: Amounts = np.lexsort([*ties, size]) if ties else np.argsort(size, kind="stable")
    return order


def _tighten(
    sizes: Amounts, taken: Amounts, starts: Amounts, owner: Amounts, cut: Amounts, liked: Amounts | None
) -> None:
    """Step 3: move what was taken of the sub-domains `cut`, at most one of each domain, to the best after them."""
    ends = np.append(starts[1:], len(sizes))[owner[cut]]
    rests = taken[cut]
    for at, end, rest in zip(cut.tolist(), ends.tolist(), rests.tolist(), strict=True):
        later = sizes[at:end]
        enough = int((-later).searchsorted(-rest, side="right"))
        taken[at] = 0
        if liked is None:
            best = int((-later).searchsorted(-later[enough - 1]))
        else:
            best = int(np.lexsort((later[:enough], -liked[at : at + enough]))[0])
        taken[at + best] = rest
