"""Which pods are placed together, decided from each pod alone.

1. Pods of a PodGroup of Kubernetes itself are a gang, if their creation marked them as managed.
2. Pods with the same `pod-group-name` in a namespace are a gang, whatever their owners.
3. Other pods that request a topology or a minimum of members form a gang with those of the same controller.
4. Such a pod without a controller is a gang of its own.
"""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final, Self

from webhook.formats.dra import claim_templates
from webhook.formats.kubernetes.native_pod_group import scheduling_group_of
from webhook.formats.user_pod_group import subgroup_of
from webhook.formats.workload.record import rank_of
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
    SCHEDULING_GROUP,
    STRATEGY,
)
from webhook.model.wording import quoted
from webhook.records import record

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
"""Any of these annotations, on the workload, a pod template or a pod, makes its pods a gang."""

LEVELS_OF_A_TOPOLOGY: Final = frozenset(
    {
        KAI_REQUIRED_PLACEMENT,
        KAI_PREFERRED_PLACEMENT,
        KAI_SEGMENT_SIZE,
        KAI_SEGMENT_REQUIRED_PLACEMENT,
        KAI_SEGMENT_PREFERRED_PLACEMENT,
    }
)
"""What has a meaning only in the topology that is named with it."""

GANG_REQUESTS: Final = GROUP_ANNOTATIONS | {STRATEGY}
"""What annotations request for a gang. A strategy alone makes none."""

# No cluster runs more pods (see webhook.formats.workload.common_fields), so a larger rank is not a position.
_RANKS: Final = 150_000

# The longest name of an object in Kubernetes.
_LONGEST_NAME: Final = 253

_WISHES: Final = tuple(sorted(GANG_REQUESTS - {POD_GROUP_NAME}))
Wishes = tuple[tuple[str, str], ...]
"""(annotation, value) of the GANG_REQUESTS on a pod, sorted by name, without the name of its gang."""


@record
class Membership:
    """A pod's gang and its rank in it."""

    group: str
    """Equal for the members of one gang, and only for them."""
    name: str
    """The gang's display name; quoted and truncated if it is too long or not printable."""
    rank: int | None
    """Its rank in the gang: as assigned, or else as its controller numbers it."""
    of_object: bool = False
    """Whether an object that its pods name defines the gang: its minimum and topology, not the pods or their owners."""


@record
class AssignedMember:
    """A member of a gang that is assigned or running."""

    node: str
    rank: int | None
    wishes: Wishes = ()
    """What it requests, including what its owners set since its assignment."""
    domain: str = ""
    """The annotation that records its domains."""
    owner: str = ""
    """The uid of its controller."""
    assigned: bool = False
    """Whether we assigned it as a member. Otherwise it reached its node without us and only names the gang."""
    gang: str = ""
    """The gang's display name."""
    subgroup: str = ""
    """The subgroup of its PodGroup or PodGang that its label names."""
    claim_templates: tuple[str, ...] = ()
    """The templates (namespace/name) of its resource claims."""

    @classmethod
    def of(cls, raw: Mapping[str, Any], node: str, membership: Membership) -> Self:
        """The member in a pod object with a node. Equal texts are interned: a cluster has 50,000 pods."""
        metadata: Mapping[str, Any] = raw["metadata"]
        annotations: Mapping[str, str] = metadata.get("annotations") or {}
        return cls(
            node,
            membership.rank,
            wishes_of(annotations),
            intern(annotations.get(DOMAIN, "")),
            intern(controller_uid(metadata)),
            RANK in annotations,
            intern(membership.name),
            intern(subgroup_of(metadata.get("labels") or {}, annotations)),
            claim_templates(raw) if raw["spec"].get("resourceClaims") else (),
        )


def wishes_of(annotations: Mapping[str, str]) -> Wishes:
    """What annotations request for a gang."""
    return _kept_once(tuple((key, annotations[key]) for key in _WISHES if key in annotations))


@lru_cache(maxsize=4096)
def _kept_once(wishes: Wishes) -> Wishes:
    return wishes


def controller_uid(metadata: Mapping[str, Any]) -> str:
    """The uid of an object's controller; empty if it has none."""
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("uid", ""))
    return ""


def is_of_daemon_set(metadata: Mapping[str, Any]) -> bool:
    """Whether an object's controller is a DaemonSet."""
    owners = metadata.get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("kind") == "DaemonSet" for owner in owners)


def is_of_apps(metadata: Mapping[str, Any]) -> bool:
    """Whether an object's controller is of the API group `apps`.

    The garbage collector deletes pods whose owner there does not exist. A tenant may invent owners of other groups.
    """
    owners = metadata.get("ownerReferences") or ()
    return any(
        owner.get("controller") and str(owner.get("apiVersion", "")).partition("/")[0] == "apps" for owner in owners
    )


def is_in_group(annotations: Mapping[str, str]) -> bool:
    """Whether a pod with these annotations is placed together with others."""
    return not GROUP_ANNOTATIONS.isdisjoint(annotations) or SCHEDULING_GROUP in annotations


def may_be_in_group(annotations: Mapping[str, str]) -> bool:
    """Whether the pod is in a gang, or may be because of its owners' annotations."""
    return is_in_group(annotations) or annotations.get(INHERIT) == "true"


def membership_of(raw: Mapping[str, Any]) -> Membership | None:
    """The gang of a pod object; None if it is in none."""
    metadata: Mapping[str, Any] = raw.get("metadata") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    if not is_in_group(annotations):
        return None
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    if (marked := annotations.get(SCHEDULING_GROUP)) and marked == scheduling_group_of(raw):
        return Membership(native_group(namespace, marked), _shown(marked), _rank(metadata), of_object=True)
    if chosen := annotations.get(POD_GROUP_NAME):
        return Membership(named_group(namespace, chosen), _shown(chosen), _rank(metadata))
    alone = Membership(f"{namespace}/pod/{metadata.get('uid') or name}", name, _rank(metadata))
    return _by_controller(metadata) or alone


def _shown(name: str) -> str:
    """The name as messages show it. KAI-Scheduler takes a PodGroup's name (253 characters); we take any text."""
    return name if len(name) <= _LONGEST_NAME and name.isprintable() else quoted(name)


def unasked_membership_of(raw: Mapping[str, Any]) -> Membership | None:
    """The gang of the pod's controller, for a pod without a gang from its owners yet; None for any other pod."""
    metadata: Mapping[str, Any] = raw.get("metadata") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    if is_in_group(annotations) or annotations.get(INHERIT) != "true":
        return None
    return _by_controller(metadata)


def named_group(namespace: str, name: str) -> str:
    """The key of the gang of a name that its pods have in an annotation."""
    return f"{namespace}/name/{name}"


def native_group(namespace: str, name: str) -> str:
    """The key of the gang of a PodGroup of Kubernetes itself."""
    return f"{namespace}/podgroup/{name}"


def controllers_group(namespace: str, uid: str) -> str:
    """The key of the gang that one controller's pods form."""
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
