"""Which pods are placed together, by what stands on each of them.

1. Pods with the same `pod-group-name` in a namespace, whoever owns them.
2. Otherwise, of the pods that ask for a topology or a minimum of members, those of one controller.
3. Such a pod without a controller is a group of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.model.fields import whole_number
from webhook.model.names import (
    INHERIT,
    KAI_BATCH_MIN_MEMBER,
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    MIN_MEMBER,
    POD_GROUP_NAME,
    RANK,
)
from webhook.model.workload.rank import rank_of

GROUP_ANNOTATIONS: Final = frozenset(
    {
        POD_GROUP_NAME,
        MIN_MEMBER,
        KAI_TOPOLOGY,
        KAI_REQUIRED_PLACEMENT,
        KAI_PREFERRED_PLACEMENT,
        KAI_SEGMENT_SIZE,
        KAI_SEGMENT_REQUIRED_PLACEMENT,
        KAI_SEGMENT_PREFERRED_PLACEMENT,
        KAI_BATCH_MIN_MEMBER,
    }
)
"""Each of them, on the workload, a pod template or a pod, makes its pods a group."""


@dataclass(frozen=True, slots=True)
class Membership:
    """A pod's group and its place in it."""

    group: str
    """Equal for the members of one group, and for them only."""
    name: str
    """The group as people know it."""
    rank: int | None
    """Its place in the order of the group: as it was placed, else as far as its controller says."""


@dataclass(frozen=True, slots=True)
class Seated:
    """A member of a group that has a place, or runs."""

    node: str
    rank: int | None


def is_in_group(annotations: Mapping[str, str]) -> bool:
    """Whether a pod with these annotations is placed together with others."""
    return not GROUP_ANNOTATIONS.isdisjoint(annotations)


def may_be_in_group(annotations: Mapping[str, str]) -> bool:
    """Whether it is, or may be by what stands on its owners."""
    return is_in_group(annotations) or annotations.get(INHERIT) == "true"


def membership_of(raw: Mapping[str, Any]) -> Membership | None:
    """The group of a pod object; None if it is in none."""
    metadata: Mapping[str, Any] = raw.get("metadata") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    if not is_in_group(annotations):
        return None
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    rank = whole_number(annotations.get(RANK, ""))
    if rank is None:
        rank = rank_of(name, metadata.get("labels") or {}, annotations)
    if chosen := annotations.get(POD_GROUP_NAME):
        return Membership(f"{namespace}/name/{chosen}", chosen, rank)
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return Membership(f"{namespace}/owner/{owner.get('uid', '')}", owner.get("name", ""), rank)
    return Membership(f"{namespace}/pod/{metadata.get('uid') or name}", name, rank)
