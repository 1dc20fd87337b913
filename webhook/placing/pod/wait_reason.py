"""Why a pod waits, as a label of a metric: one of these, or the code of an exclusion reason (`webhook.engine.reason`).

A single pod has the reason of the nodes that came closest: those that passed the most checks.
"""

from collections.abc import Iterable
from enum import StrEnum

from webhook.engine.reason import Reason


class WaitReason(StrEnum):
    """Reasons that are not about single nodes."""

    PENDING = "Pending"
    """It was not tried yet, or its assignment is being written."""
    NO_NODE = "NoNode"
    """There is no node."""
    OTHERS_FIRST = "OthersFirst"
    """It fits, but other pods must be bound to its node first."""
    CLAIMS = "ClaimsMissing"
    """Its resource claims do not exist yet, or an earlier allocation of them is being taken back."""
    DEVICES_APART = "DevicesApart"
    """Its kubelet would take other NUMA nodes than those that free devices of its claims are on."""
    OWNERS = "OwnersUnknown"
    """Its owners could not be read."""
    UNREADABLE = "Unreadable"
    """Its own annotations or resources cannot be read."""
    NOT_ALIGNABLE = "NotAlignable"
    """No kubelet would align it, and that is denied."""
    WRITE_REJECTED = "WriteRejected"
    """It fits, but the API server rejects its assignment."""
    PREEMPTING = "Preempting"
    """Lower-priority pods are being preempted for it, or their nodes are reserved for it, or this is paused."""
    SHARD = "OtherShard"
    """There is room in another shard of the nodes only: it moves there next, or is larger than any shard."""
    INTERNAL_ERROR = "InternalError"
    """A bug of the service."""
    GANG_INCOMPLETE = "GangIncomplete"
    """Members of its gang are missing."""
    GANG_INVALID = "GangInvalid"
    """The members of its gang contradict each other, or their request is invalid."""
    GANG_DOES_NOT_FIT = "GangDoesNotFit"
    """No domain, or no node, can hold the gang."""


def closest(excluded: Iterable[Reason]) -> str:
    """The reason of the nodes that passed the most checks."""
    return max(excluded).code if excluded else WaitReason.NO_NODE
