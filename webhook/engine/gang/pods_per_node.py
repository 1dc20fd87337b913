"""How many equal pods fit: per node, and per NUMA node for pods that must stay within one.

Exact integers throughout: the number is the least over the resources of free // request.
"""

from collections.abc import Sequence

import numpy as np

from webhook.engine.arrays import Amounts

UNBOUNDED = 1 << 31
"""Stands for "no resource limits it": more pods than any group has, and sums of it over all nodes stay in int64."""


def slots(free: Sequence[Amounts], requests: Sequence[int]) -> Amounts:
    """The pods that fit at each place: int64, of the shape of the free amounts, at most UNBOUNDED.

    free: for each resource int64 [node] or [zone, node], cpu in millicores, rest in bytes or pieces; -1 = not listed,
    below zero = over-committed: nothing fits in either case. requests: the amount one pod asks of each, at least 1.
    """
    if not free:
        raise ValueError("no resource to count by: say so with a row of UNBOUNDED")
    fit = np.floor_divide(free[0], requests[0])
    other = np.empty_like(fit)
    for amounts, request in zip(free[1:], requests[1:], strict=True):
        # Pods and most devices are asked for one by one; a division takes twice as long as a minimum.
        np.minimum(fit, amounts if request == 1 else np.floor_divide(amounts, request, out=other), out=fit)
    return np.clip(fit, 0, UNBOUNDED, out=fit)
