"""Sharing out pods among sub-domains: the fewest that hold them, the last one as tight as can be.

1. A domain whose pods fill it up fills every sub-domain.
2. Otherwise sub-domains are taken from the largest down (those that hold members already come first) until the rest
   fits into one; of those that hold equally many segments the tightest; ties in tree order, so that what is taken
   together lies together.
3. For that rest the smallest sub-domain that holds it is taken instead.
Step 2 gives the fewest possible: no k sub-domains hold more than the k largest.
"""

from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts, Bools
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
        preferred = None if among.anchored is None else among.anchored[below[concerned]]
        slack = None if among.pods is None else among.pods[below[concerned]]
        amounts[concerned] = _fewest(amounts[concerned], widths[partial], wanted[partial], preferred, slack)
    taken = amounts > 0
    return Share(below[taken], amounts[taken])


def _fewest(room: Amounts, widths: Amounts, wanted: Amounts, preferred: Bools | None, slack: Amounts | None) -> Amounts:
    """How much of each domain's `wanted` its sub-domains take; they hold more than that together.

    room, preferred, slack: [sub-domain], those of one domain side by side; widths, wanted: [domain]. Of equal room the
    least slack comes first.
    """
    starts = widths.cumsum() - widths
    owner = np.repeat(np.arange(len(widths)), widths)
    # By size first, then by owner: the second sort is stable.
    size = -room if preferred is None else -room - preferred * _MEMBERS_FIRST
    order = np.argsort(size, kind="stable") if slack is None else np.lexsort((slack, size))
    if len(widths) > 1:
        order = order[np.argsort(owner[order], kind="stable")]
    sizes = room[order]
    reached = sizes.cumsum()
    before = reached - sizes
    before -= before[starts][owner]
    taken = np.clip(wanted[owner] - before, 0, sizes)
    cut = np.flatnonzero((taken > 0) & (taken < sizes))
    if preferred is not None:
        cut = cut[~preferred[order[cut]]]
    if len(cut):
        _tighten(sizes, taken, starts, owner, cut)
    amounts = np.empty_like(room)
    amounts[order] = taken
    return amounts


def _tighten(sizes: Amounts, taken: Amounts, starts: Amounts, owner: Amounts, cut: Amounts) -> None:
    """Step 3: move what was taken of the sub-domains `cut`, at most one of each domain, to the tightest after them."""
    ends = np.append(starts[1:], len(sizes))[owner[cut]]
    rests = taken[cut]
    for at, end, rest in zip(cut.tolist(), ends.tolist(), rests.tolist(), strict=True):
        later = sizes[at:end]
        tightest = later[(-later).searchsorted(-rest, side="right") - 1]
        taken[at] = 0
        taken[at + int((-later).searchsorted(-tightest))] = rest
