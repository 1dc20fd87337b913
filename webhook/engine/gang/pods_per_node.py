"""How many equal pods fit: per node, and per NUMA node for pods that must stay within one.

Exact integers: the number is the minimum over the resources of free // request.
"""

from collections.abc import Sequence

import numpy as np

from webhook.engine.arrays import Amounts

UNBOUNDED = 1 << 31
"""Means that no resource limits the number: more pods than any gang has; sums over all nodes stay within int64."""


def slots(free: Sequence[Amounts], requests: Sequence[int]) -> Amounts:
    """The number of pods that fit: int64, in the shape of the free amounts, at most UNBOUNDED.

    free: for each resource int64 [node] or [zone, node], cpu in millicores, rest in bytes or a count; -1 = not listed,
    below zero = over-committed: nothing fits in either case. requests: the amount one pod requests of each, at least 1.
    """
    if not free:
        raise ValueError("no resource to count by: say so with a row of UNBOUNDED")
    fit = np.floor_divide(free[0], requests[0])
    other = np.empty_like(fit)
    for amounts, request in zip(free[1:], requests[1:], strict=True):
        # Pods and most devices are requested one by one; a division takes twice as long as a minimum.
        np.minimum(fit, amounts if request == 1 else np.floor_divide(amounts, request, out=other), out=fit)
    return np.clip(fit, 0, UNBOUNDED, out=fit)
