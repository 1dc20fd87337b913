"""From pods per node to an assignment for every pod: neighbours in rank become neighbours in the tree.

1. Nodes are in tree order; those of the domain with a smaller last segment come last, as its pods do in rank.
2. On a node the NUMA nodes are filled in ascending order.
3. Members take these slots in order of rank. Each domain is a contiguous range of slots, so it gets a contiguous range
   of ranks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.gang.remaining import Taken
from webhook.engine.gang.result import PodSetAssignment
from webhook.engine.gang.slices import PodSlice


class Row(NamedTuple):
    """Slots in order; both int64, one entry per slot."""

    nodes: Amounts
    masks: Amounts

    def taken(self, z: int) -> Taken:
        """The number of pods by node and NUMA node. z: positions of NUMA nodes."""
        nodes, at = np.unique(self.nodes, return_inverse=True)
        zones = np.zeros((len(nodes), z + 1), dtype=np.int64)
        columns = np.where(self.masks > 0, np.bitwise_count(np.maximum(self.masks - 1, 0)), z)
        np.add.at(zones, (at, columns), 1)
        return Taken(nodes, zones)


def row_of(taken: Taken, last: Sequence[Amounts] = ()) -> Row:
    """The slots of some pods. last: nodes (n) whose slots come last, then those of them that come last, and so on."""
    nodes, zones = taken.nodes, taken.zones
    if last:
        order = np.argsort(np.sum([np.isin(nodes, each) for each in last], axis=0), kind="stable")
        nodes, zones = nodes[order], zones[order]
    columns = zones.shape[1]
    masks = np.zeros(columns, dtype=np.int64)
    masks[:-1] = np.int64(1) << np.arange(columns - 1, dtype=np.int64)
    at, column = np.divmod(np.arange(zones.size).repeat(zones.ravel()), columns)
    return Row(nodes.take(at), masks.take(column))


def joined(rows: Sequence[Row]) -> Row:
    """Concatenate two rows."""
    return Row(np.concatenate([row.nodes for row in rows]), np.concatenate([row.masks for row in rows]))


def shared_out(pod_slices: Sequence[PodSlice], row: Row) -> list[PodSetAssignment]:
    """Divide one row of slots among equal pods of several slices: the minimums first, then the others in order."""
    quotas = [pod_slice.minimum for pod_slice in pod_slices]
    extra = len(row.nodes) - sum(quotas)
    for index, pod_slice in enumerate(pod_slices):
        more = min(extra, len(pod_slice.members) - quotas[index])
        quotas[index] += more
        extra -= more
    assignments = []
    start = 0
    for pod_slice, quota in zip(pod_slices, quotas, strict=True):
        assignments.append(
            _assignment(pod_slice, Row(row.nodes[start : start + quota], row.masks[start : start + quota]))
        )
        start += quota
    return assignments


def _assignment(pod_slice: PodSlice, row: Row) -> PodSetAssignment:
    return PodSetAssignment(pod_slice.podset, pod_slice.members[: len(row.nodes)], row.nodes, row.masks)


def by_set(assignments: Sequence[PodSetAssignment]) -> tuple[PodSetAssignment, ...]:
    """The assignments of each pod set joined into one, in order of rank."""
    together: dict[int, list[PodSetAssignment]] = {}
    for part in assignments:
        together.setdefault(id(part.podset), []).append(part)
    return tuple(parts[0] if len(parts) == 1 else _one(parts) for parts in together.values())


def _one(parts: Sequence[PodSetAssignment]) -> PodSetAssignment:
    members = np.concatenate([part.members for part in parts])
    order = np.argsort(members, kind="stable")
    nodes = np.concatenate([part.nodes for part in parts])
    masks = np.concatenate([part.masks for part in parts])
    return PodSetAssignment(parts[0].podset, members[order], nodes[order], masks[order])
