"""Admission by a kubelet where every container fits one NUMA node: the short way, for all nodes at once.

A NUMA node with enough of everything is a hint of every manager, and preferred, because nothing is narrower. For
container after container:
1. Find the NUMA nodes with enough of all aligned resources; the lowest is the affinity.
2. Subtract what the container takes; resources of an init container stay reusable.
single-numa-node admits exactly these pods. restricted and best-effort admit them too, and may admit others
(webhook.engine.kubelet.admission). With policy none only memory has an affinity; of other resources there must be
enough in total.

Without it a decision over 5,000 nodes of 8 NUMA nodes takes 36 to 72 times as long (make bench, single-numa-node).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.kubelet.bitmask import lowest
from webhook.engine.kubelet.demand import Share
from webhook.formats.kubernetes.pod import ContainerKind

Planes = Callable[[int], Amounts]
"""Row -> int64 [z, n]: amounts in each NUMA node, -1 = not listed."""


@dataclass(slots=True)
class ZoneFit:
    """Which of n nodes keep every container within one NUMA node."""

    fits: Bools
    """bool [n]."""
    mask: npt.NDArray[np.int64]
    """int64 [n]: the NUMA nodes used; 0 if it does not fit."""


def fit_zones(shares: Sequence[Share], free: Planes, capacity: Planes, n: int) -> ZoneFit:
    """Admit `shares` one after the other on n nodes; each needs one NUMA node with enough of all its requests."""
    wanted = [share for share in shares if any(share.amounts.values()) or share.devices]
    if not wanted:
        return ZoneFit(np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.int64))
    if len(wanted) == 1:
        enough = _enough(wanted[0], free, capacity)
        mask = lowest(enough)
        return ZoneFit(mask > 0, mask)
    return _in_sequence(wanted, free, capacity, n)


def _enough(share: Share, free: Planes, capacity: Planes) -> Bools:
    """NUMA nodes with enough of everything (bool [z, n]); the share is not empty."""
    conditions = [free(row) >= amount for row, amount in share.amounts.items() if amount > 0]
    # A request for zero devices still binds the container to NUMA nodes that have some.
    conditions += [capacity(row) > 0 for row, amount in share.devices.items() if amount == 0]
    enough: Bools = conditions[0]
    for here in conditions[1:]:
        np.logical_and(enough, here, out=enough)
    return enough


def _in_sequence(shares: Sequence[Share], free: Planes, capacity: Planes, n: int) -> ZoneFit:
    rows = {row for share in shares for row in share.amounts}
    left: dict[int, Amounts] = {row: free(row).copy() for row in rows}
    reusable: dict[int, Amounts] = {row: np.zeros_like(left[row]) for row in rows}
    fits = np.ones(n, dtype=np.bool_)
    mask = np.zeros(n, dtype=np.int64)
    columns = np.arange(n)
    for share in shares:
        enough = _enough(share, lambda row: left[row] + reusable[row], capacity)
        for row in (*share.cpu, *share.devices):
            # Reusable CPUs and devices must all be inside the affinity.
            held = reusable[row]
            enough &= held == held.sum(axis=0)
        fits &= enough.any(axis=0)
        zone = enough.argmax(axis=0)
        mask |= np.int64(1) << zone
        for row, amount in share.amounts.items():
            _take(left[row], reusable[row], (zone, columns), amount, share)
    return ZoneFit(fits, mask * fits)


def _take(
    left: Amounts,
    reusable: Amounts,
    where: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]],
    amount: int,
    share: Share,
) -> None:
    """Subtract `amount` where (zone and node): reusable amounts first; those of init containers become reusable."""
    reused = np.minimum(reusable[where], amount)
    left[where] -= amount - reused
    if share.kind is ContainerKind.INIT:
        reusable[where] += amount - reused
    else:
        reusable[where] -= reused
