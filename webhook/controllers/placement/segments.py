"""Which segment of its group a member is in: as its workload says, where its kind is known, else as it says itself.

1. The roles of a workload have their ranks in one row. The segments of a role begin with the first of its ranks.
2. Of kinds that cut segments themselves (LeaderWorkerSet) a member's annotations do not say it all. There the first
   segment may be of several roles.
"""

from collections.abc import Collection
from typing import NamedTuple

from webhook.controllers.placement.gated_pods import GatedPod
from webhook.model.workload.record import Gang, Role
from webhook.model.workload.topology_request import SegmentRequest, segment_request


class Row(NamedTuple):
    """A role of a workload."""

    ranks: range
    """Those of its pods in the group."""
    role: Role
    head: Gang | None
    """The segment that it is part of, beside other roles; None = it is in segments of its own, or in none."""


class Roles:
    """The roles of a group's workload; none where no owner says them."""

    def __init__(self, rows: Collection[Row] = ()) -> None:
        self._rows = tuple(rows)

    @classmethod
    def of(cls, gated: GatedPod) -> "Roles":
        """Those of a member's workload. Raises UserError."""
        lineage = gated.lineage if gated.in_group_of_its_top else None
        gang = None if lineage is None else lineage.gang(gated.pod.labels)
        if gang is None:
            return cls()
        heads = {id(role): part for part in gang.gangs if part.segment for role in part.all_roles()}
        return cls([Row(ranks, role, heads.get(id(role))) for ranks, role in gang.by_rank()])

    def at(self, rank: int | None) -> Row | None:
        """The role of a rank."""
        return next((row for row in self._rows if rank is not None and rank in row.ranks), None)

    def ranks_of(self, head: Gang) -> set[int]:
        """The ranks of a segment that is of several roles."""
        return {rank for row in self._rows if row.head is head for rank in row.ranks}

    def asked(self, gated: GatedPod, rank: int | None, path: str) -> SegmentRequest | None:
        """The segments that a member is in; path: the place of its annotations. Raises UserError."""
        row = self.at(rank)
        if row is not None and row.role.cut:
            return row.role.segments
        if row is None and any(row.role.cut for row in self._rows):
            return None
        return segment_request((gated.pod.annotations, path))
