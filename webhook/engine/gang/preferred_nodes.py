"""Which nodes of a domain remain to choose from, if a gang prefers some of them.

Preference never costs a node. Of the choices with the fewest nodes, the best is the one whose least preferred node is
preferred most: the least preferred nodes are left out as long as the others hold the pods in equally few. The rest is
distributed as usual, from the largest node down (webhook.engine.gang.distribution).
"""

import numpy as np

from webhook.engine.arrays import Amounts


def without_disliked(domain_capacity: Amounts, widths: Amounts, wanted: Amounts, liked: Amounts) -> Amounts:
    """int64 [node]: the capacity, 0 for nodes that are left out.

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
