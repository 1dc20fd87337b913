"""The NUMA nodes of nodes that fit for certain, but over more than one: worked out for those asked for, not before.

1. What follows at little cost (webhook.engine.kubelet.policy_best_effort): how many there are at least, and sometimes
   which.
2. Of the nodes asked for, those left: by what their kubelet would take where.
3. What is still open: all sets of NUMA nodes, the whole way.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from webhook.engine.arrays import Nodes
from webhook.engine.kubelet.demand import Share
from webhook.engine.kubelet.policy_best_effort import Lowest, lowest, spread
from webhook.engine.kubelet.policy_groups import PolicyGroup
from webhook.engine.numa_fit import Masks, Wide
from webhook.engine.snapshot.snapshot import Snapshot

WholeWay = Callable[[PolicyGroup], Masks]
"""The masks (int64 [n]) of a part's nodes, by all sets."""


def wide(snapshot: Snapshot, policy_groups: Sequence[tuple[PolicyGroup, Share]], whole_way: WholeWay) -> Wide:
    """The nodes of some parts, each with the share of the one container there, as they are left open."""
    late = [_LazyGroup(snapshot, policy_group, share, whole_way) for policy_group, share in policy_groups]
    ends = np.cumsum([len(policy_group.nodes) for policy_group, _ in policy_groups])

    def masks(where: Nodes) -> Masks:
        found = np.zeros(len(where), dtype=np.int64)
        numbers = np.searchsorted(ends, where, side="right")
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            found[mine] = late[number].masks(where[mine] - (ends[number] - len(late[number].policy_group.nodes)))
        return found

    return Wide(
        np.concatenate([policy_group.nodes for policy_group, _ in policy_groups]),
        lambda: np.concatenate([each.lowest.at_least for each in late]),
        masks,
    )


class _LazyGroup:
    """One part."""

    def __init__(self, snapshot: Snapshot, policy_group: PolicyGroup, share: Share, whole_way: WholeWay) -> None:
        self.policy_group = policy_group
        self._snapshot = snapshot
        self._share = share
        self._whole_way = whole_way

    @cached_property
    def lowest(self) -> Lowest:
        """What is known at little cost."""
        return lowest(self._snapshot, self._share, self.policy_group)

    def masks(self, where: Nodes) -> Masks:
        """int64 [n]: the masks of some nodes (indexes into the part)."""
        # Who asks for a few nodes has not asked for the least of all.
        mask = self.lowest.mask[where] if "lowest" in self.__dict__ else np.zeros(len(where), dtype=np.int64)
        (rest,) = (mask == 0).nonzero()
        if len(rest):
            closer = spread(self._snapshot, self._share, self.policy_group.at(where[rest]))
            mask[rest] = closer.mask
            rest = rest[closer.open]
        if len(rest):
            mask[rest] = self._whole_way(self.policy_group.at(where[rest]))
        return mask
