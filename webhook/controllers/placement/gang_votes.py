"""What each member of a gang says about it, and what most of them say (see `gang_agreement`)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from webhook.controllers.placement.gated_pods import GatedPod
from webhook.controllers.placement.segments import WorkloadPodSets
from webhook.model.errors import UserError
from webhook.model.membership import AssignedMember
from webhook.model.names import KAI_BATCH_MIN_MEMBER
from webhook.model.workload.common_fields import min_member

Value = TypeVar("Value", str, int)


def ranks_of_pod_set(gated: GatedPod) -> range | None:
    """The ranks of a member's pod set, if its owner defines it. Its request was found valid before."""
    rank = None if gated.membership is None else gated.membership.rank
    row = WorkloadPodSets.of(gated).at(rank)
    return None if row is None else row.ranks


def asked_minimum(annotations: Mapping[str, str]) -> int | None:
    """The minimum that annotations request, None if they request none. Raises UserError."""
    return min_member(annotations, KAI_BATCH_MIN_MEMBER)


def said_minimum(member: AssignedMember) -> int | None:
    """The minimum that an assigned member requests; None if it requests none or its value is invalid."""
    try:
        return asked_minimum(dict(member.wishes))
    except UserError:
        return None


def most_said(values: Sequence[Value | None] | Iterable[Value | None]) -> Value | None:
    """The most frequent value, where None counts as a value; on a tie one that is not None, then the first."""
    counts = Counter(values)
    if not counts:
        return None
    most = max(counts.values())
    said = [value for value, count in counts.items() if count == most]
    return next((value for value in said if value is not None), None)
