"""The NUMA nodes of nodes that certainly fit, but over more than one: computed on request.

1. A cheap lower bound of their number, and sometimes the exact set (webhook.engine.kubelet.policy_best_effort).
2. For the requested nodes, those left: by what their kubelet would take where.
3. What is still open: all sets of NUMA nodes, the full admission.
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
"""The masks (int64 [n]) of a group's nodes, by all sets."""


def wide(snapshot: Snapshot, policy_groups: Sequence[tuple[PolicyGroup, Share]], whole_way: WholeWay) -> Wide:
    """The open nodes of some groups, each with the share of its one container."""
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
    """One group."""

    def __init__(self, snapshot: Snapshot, policy_group: PolicyGroup, share: Share, whole_way: WholeWay) -> None:
        self.policy_group = policy_group
        self._snapshot = snapshot
        self._share = share
        self._whole_way = whole_way

    @cached_property
    def lowest(self) -> Lowest:
        """The cheap result."""
        return lowest(self._snapshot, self._share, self.policy_group)

    def masks(self, where: Nodes) -> Masks:
        """int64 [n]: the masks of some nodes (indexes into the group)."""
        # A request for a few nodes need not compute the lower bounds of all.
        mask = self.lowest.mask[where] if "lowest" in self.__dict__ else np.zeros(len(where), dtype=np.int64)
        (rest,) = (mask == 0).nonzero()
        if len(rest):
            closer = spread(self._snapshot, self._share, self.policy_group.at(where[rest]))
            mask[rest] = closer.mask
            rest = rest[closer.open]
        if len(rest):
            mask[rest] = self._whole_way(self.policy_group.at(where[rest]))
        return mask
