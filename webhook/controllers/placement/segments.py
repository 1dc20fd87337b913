"""Which role and segment of its group a member is in: as its workload says if its kind is known, else as the pod says.

1. The roles of a workload have their ranks in one row. The segments of a role begin with the first of its ranks.
2. Of kinds that cut segments themselves (LeaderWorkerSet) a member's annotations do not say it all. There the first
   segment may be of several roles.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from webhook.controllers.placement.gated_pods import GatedPod
from webhook.model.workload.record import Gang, WorkloadPodSet
from webhook.model.workload.topology_request import SegmentRequest, segment_request


class Row(NamedTuple):
    """A role of a workload."""

    ranks: range
    """Those of its pods in the group."""
    pod_set: WorkloadPodSet
    head: Gang | None
    """The segment that it is part of, beside other roles; None = it is in segments of its own, or in none."""
    has_levels: bool = False
    """Whether it asks for levels of its own, besides those of the workload."""


class WorkloadPodSets:
    """The roles of a group's workload; none where no owner says them."""

    def __init__(self, rows: Collection[Row] = ()) -> None:
        self._rows = tuple(rows)

    @classmethod
    def of(cls, gated: GatedPod) -> "WorkloadPodSets":
        """Those of a member's workload. Raises UserError."""
        owner_chain = gated.owner_chain if gated.in_group_of_its_top else None
        gang = None if owner_chain is None else owner_chain.gang(gated.pod.labels)
        if gang is None:
            return cls()
        parts = {id(pod_set): part for part in gang.gangs for pod_set in part.all_pod_sets()}
        return cls([_row(ranks, pod_set, parts.get(id(pod_set))) for ranks, pod_set in gang.by_rank()])

    def at(self, rank: int | None) -> Row | None:
        """The role of a rank."""
        return next((row for row in self._rows if rank is not None and rank in row.ranks), None)

    def with_levels(self, ranks: Iterable[int]) -> Sequence[Row]:
        """Of the roles of these ranks those that ask for levels of their own; none if they are of one role."""
        if not any(row.has_levels for row in self._rows):
            return ()
        roles = {row.ranks: row for rank in ranks if (row := self.at(rank)) is not None}
        return [row for row in roles.values() if row.has_levels] if len(roles) > 1 else ()

    def ranks_of(self, head: Gang) -> set[int]:
        """The ranks of a segment that is of several roles."""
        return {rank for row in self._rows if row.head is head for rank in row.ranks}

    def asked(self, gated: GatedPod, rank: int | None, path: str) -> SegmentRequest | None:
        """The segments that a member is in; path: the place of its annotations. Raises UserError."""
        row = self.at(rank)
        if row is not None and row.pod_set.cut:
            return row.pod_set.segments
        if row is None and any(row.pod_set.cut for row in self._rows):
            return None
        return segment_request((gated.pod.annotations, path))


def _row(ranks: range, pod_set: WorkloadPodSet, part: Gang | None) -> Row:
    segment = part is not None and part.segment
    return Row(ranks, pod_set, part if segment else None, part is not None and not segment)
