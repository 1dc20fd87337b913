"""Which pods are placed together, by what stands on each of them.

1. Pods with the same `pod-group-name` in a namespace, whoever owns them.
2. Otherwise, of the pods that ask for a topology or a minimum of members, those of one controller.
3. Such a pod without a controller is a group of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Any, Final, Self

from webhook.model.fields import whole_number
from webhook.model.names import (
    DOMAIN,
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
from webhook.model.quoted import quoted
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

# No cluster runs more pods (see webhook.model.workload.common_fields): a rank from there on is not a place in an order.
_RANKS: Final = 150_000

# Of an object, in Kubernetes.
_LONGEST_NAME: Final = 253

_WISHES: Final = tuple(sorted(GROUP_ANNOTATIONS - {POD_GROUP_NAME}))
Wishes = tuple[tuple[str, str], ...]
"""(annotation, value) of those in GROUP_ANNOTATIONS that a pod has, by name, but for the name of its group."""


@dataclass(frozen=True, slots=True)
class Membership:
    """A pod's group and its place in it."""

    group: str
    """Equal for the members of one group, and for them only."""
    name: str
    """The group as people know it; a name that is too long for that, or not to be printed, is quoted and cut."""
    rank: int | None
    """Its place in the order of the group: as it was placed, else as far as its controller says."""


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member of a group that has a place, or runs."""

    node: str
    rank: int | None
    wishes: Wishes = ()
    """What it asks for, with what it has from its owners since it was placed."""
    domain: str = ""
    """The annotation in which its placement recorded its domains."""
    owner: str = ""
    """The uid of its controller."""
    assigned: bool = False
    """Whether it was placed here as a member. Else it came to its node by itself, and names the group."""

    @classmethod
    def of(cls, raw: Mapping[str, Any], node: str, membership: Membership) -> Self:
        """That of a pod object with a node. Equal texts are kept once: a cluster has 50,000 pods."""
        metadata: Mapping[str, Any] = raw["metadata"]
        annotations: Mapping[str, str] = metadata.get("annotations") or {}
        return cls(
            node,
            membership.rank,
            wishes_of(annotations),
            intern(annotations.get(DOMAIN, "")),
            intern(controller_uid(metadata)),
            RANK in annotations,
        )


def wishes_of(annotations: Mapping[str, str]) -> Wishes:
    """What annotations ask of a group."""
    return _kept_once(tuple((key, annotations[key]) for key in _WISHES if key in annotations))


@lru_cache(maxsize=4096)
def _kept_once(wishes: Wishes) -> Wishes:
    return wishes


def controller_uid(metadata: Mapping[str, Any]) -> str:
    """The uid of an object's controller; empty where it has none."""
    owners = metadata.get("ownerReferences") or ()
    return next((str(owner.get("uid", "")) for owner in owners if owner.get("controller")), "")


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
    if chosen := annotations.get(POD_GROUP_NAME):
        return Membership(f"{namespace}/name/{chosen}", _shown(chosen), _rank(metadata))
    alone = Membership(f"{namespace}/pod/{metadata.get('uid') or name}", name, _rank(metadata))
    return _by_controller(metadata) or alone


def _shown(name: str) -> str:
    """The name in texts. KAI-Scheduler takes it for that of a PodGroup, of 253 characters; here any text is one."""
    return name if len(name) <= _LONGEST_NAME and name.isprintable() else quoted(name)


def unasked_membership_of(raw: Mapping[str, Any]) -> Membership | None:
    """The pods of its controller, for a pod that has not taken its group from its owners yet; None for any other."""
    metadata: Mapping[str, Any] = raw.get("metadata") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    if is_in_group(annotations) or annotations.get(INHERIT) != "true":
        return None
    return _by_controller(metadata)


def controllers_group(namespace: str, uid: str) -> str:
    """The group of the pods of one controller."""
    return f"{namespace}/owner/{uid}"


def _by_controller(metadata: Mapping[str, Any]) -> Membership | None:
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            group = controllers_group(metadata.get("namespace", ""), owner.get("uid", ""))
            return Membership(group, owner.get("name", ""), _rank(metadata))
    return None


def _rank(metadata: Mapping[str, Any]) -> int | None:
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    rank = whole_number(annotations.get(RANK, ""))
    if rank is None:
        rank = rank_of(metadata.get("name", ""), metadata.get("labels") or {}, annotations)
    return None if rank is not None and rank >= _RANKS else rank
