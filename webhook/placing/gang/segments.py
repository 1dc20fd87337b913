"""The pod set and segment of a gang's member: from its workload if the kind is known, else from the pod's annotations.

1. Ranks continue from pod set to pod set of a workload. The segments of a pod set begin with its first rank.
2. If the kind defines the segments itself (LeaderWorkerSet), a member's annotations define them only in part. There the
   first segment may span several pod sets.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from webhook.formats.workload.record import WorkloadGang, WorkloadPodSet
from webhook.formats.workload.topology_request import SegmentRequest, segment_request
from webhook.placing.pod.gated_pods import GatedPod


class Row(NamedTuple):
    """A pod set of a workload."""

    ranks: range
    """The ranks of its pods in the gang."""
    pod_set: WorkloadPodSet
    head: WorkloadGang | None
    """The segment that it shares with other pod sets; None = it has segments of its own, or none."""
    has_levels: bool = False
    """Whether it requests levels of its own, besides those of the workload."""


class WorkloadPodSets:
    """The pod sets of a gang's workload; empty if no owner defines them."""

    def __init__(self, rows: Collection[Row] = ()) -> None:
        self._rows = tuple(rows)

    @classmethod
    def of(cls, gated: GatedPod) -> "WorkloadPodSets":
        """The pod sets of a member's workload. Raises UserError."""
        owner_chain = gated.owner_chain if gated.in_group_of_its_top else None
        gang = None if owner_chain is None else owner_chain.gang(gated.pod.labels)
        if gang is None:
            return cls()
        parts = {id(pod_set): part for part in gang.gangs for pod_set in part.all_pod_sets()}
        return cls([_row(ranks, pod_set, parts.get(id(pod_set))) for ranks, pod_set in gang.by_rank()])

    def at(self, rank: int | None) -> Row | None:
        """The pod set of a rank; None if no pod set has it."""
        return next((row for row in self._rows if rank is not None and rank in row.ranks), None)

    def with_levels(self, ranks: Iterable[int]) -> Sequence[Row]:
        """The pod sets of these ranks that request levels of their own; none if all ranks are in one pod set."""
        if not any(row.has_levels for row in self._rows):
            return ()
        roles = {row.ranks: row for rank in ranks if (row := self.at(rank)) is not None}
        return [row for row in roles.values() if row.has_levels] if len(roles) > 1 else ()

    def ranks_of(self, head: WorkloadGang) -> set[int]:
        """The ranks of a segment that spans several pod sets."""
        return {rank for row in self._rows if row.head is head for rank in row.ranks}

    def asked(self, gated: GatedPod, rank: int | None, path: str) -> SegmentRequest | None:
        """The segments that a member requests; path: the path of its annotations in the object. Raises UserError."""
        row = self.at(rank)
        if row is not None and row.pod_set.cut:
            return row.pod_set.segments
        if row is None and any(row.pod_set.cut for row in self._rows):
            return None
        return segment_request((gated.pod.annotations, path))


def _row(ranks: range, pod_set: WorkloadPodSet, part: WorkloadGang | None) -> Row:
    segment = part is not None and part.segment
    return Row(ranks, pod_set, part if segment else None, part is not None and not segment)
