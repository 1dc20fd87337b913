"""Which nodes of a domain are left to choose from, when a group prefers some of them.

Preference costs no node. Of the choices that need the fewest nodes, those are kept whose least preferred node is
preferred most: the least preferred nodes are left out, as long as the others hold the pods in equally few.
What is left is shared out as always, from the largest node down (webhook.engine.gang.distribution).
"""

import numpy as np

from webhook.engine.arrays import Amounts


def without_disliked(domain_capacity: Amounts, widths: Amounts, wanted: Amounts, liked: Amounts) -> Amounts:
    """int64 [node]: the room, 0 of nodes that are left out.

    room, liked: int64 [node], the nodes of one domain side by side; widths, wanted: int64 [domain]: its nodes, and the
    pods that it takes, which it holds.
    """
    levels, level = np.unique(liked, return_inverse=True)
    owner = np.repeat(np.arange(len(widths)), widths)
    fewest = _needed(domain_capacity, widths, owner, wanted)
    # Per domain: a level from which on the nodes are enough, and one from which on they are not. Bisected.
    enough, too_few = np.zeros(len(widths), dtype=np.int64), np.full(len(widths), len(levels), dtype=np.int64)
    while (too_few - enough > 1).any():
        middle = (enough + too_few) // 2
        holds = _needed(domain_capacity * (level >= middle[owner]), widths, owner, wanted) == fewest
        enough, too_few = np.where(holds, middle, enough), np.where(holds, too_few, middle)
    return domain_capacity * (level >= enough[owner])


def _needed(domain_capacity: Amounts, widths: Amounts, owner: Amounts, wanted: Amounts) -> Amounts:
    """int64 [domain]: how many nodes it takes, largest first; -1 where all of them do not hold what is wanted."""
    most = int(wanted.max()) + 1
    # Sorted by domain, and in each from the largest down; what is larger than wanted holds no more.
    keys = np.sort(owner * most + most - 1 - np.minimum(domain_capacity, wanted[owner]))
    sizes = owner * most + most - 1 - keys
    reached = sizes.cumsum()
    starts = widths.cumsum() - widths
    before = reached - sizes
    before -= before[starts][owner]
    needed = np.add.reduceat((before < wanted[owner]) & (sizes > 0), starts, dtype=np.int64)
    held = np.add.reduceat(sizes, starts)
    return np.where(held >= wanted, needed, -1)
