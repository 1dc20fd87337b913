"""Sharing out pods among sub-domains: the fewest that hold them, the last one as tight as can be.

1. A domain whose pods fill it up fills every sub-domain.
2. Otherwise sub-domains are taken from the largest down (those that hold members already come first) until the rest
   fits into one; ties in tree order, so that what is taken together lies together.
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
    """Pods (or segments) per domain of one level. Both int64, domains ascending, no zero amounts."""

    domains: Amounts
    amounts: Amounts


def pour(tree: TopologyTree, share: Share, upper: int, lower: int, room: Amounts, anchored: Bools | None) -> Share:
    """The share of each sub-domain of level `lower`, given that of domains of level `upper`, which have the room.

    room: int64 [domain of lower]; anchored: bool [domain of lower], those where members of the group run, or None.
    """
    bounds = tree.bounds(upper, lower)
    first = bounds[share.domains].astype(np.int64)
    widths = bounds[share.domains + 1] - first
    ends = widths.cumsum()
    below = np.arange(ends[-1]) + np.repeat(first - ends + widths, widths)
    amounts = room[below]
    totals = np.add.reduceat(amounts, ends - widths)
    partial = share.amounts < totals
    if partial.any():
        for number in np.flatnonzero(partial).tolist():
            piece = slice(int(ends[number] - widths[number]), int(ends[number]))
            preferred = None if anchored is None else anchored[below[piece]]
            amounts[piece] = _fewest(amounts[piece], int(share.amounts[number]), preferred)
    taken = amounts > 0
    return Share(below[taken], amounts[taken])


def _fewest(room: Amounts, wanted: int, preferred: Bools | None) -> Amounts:
    """How much of `wanted` goes to each of these sub-domains, which hold more than that together."""
    order = np.argsort(-room if preferred is None else -room - preferred * _MEMBERS_FIRST, kind="stable")
    sizes = room[order]
    reached = sizes.cumsum()
    last = int(reached.searchsorted(wanted))
    rest = wanted - (int(reached[last - 1]) if last else 0)
    amounts = np.zeros_like(room)
    amounts[order[:last]] = sizes[:last]
    if preferred is None or not preferred[order[last]]:
        later = sizes[last:]
        tightest = later[(-later).searchsorted(-rest, side="right") - 1]
        last += int((-later).searchsorted(-tightest))
    amounts[order[last]] = rest
    return amounts
