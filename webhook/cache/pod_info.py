"""A pod as the cache keeps it: a small record of a running pod, the whole object of a managed pod that waits."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from webhook.cache.unmanaged import is_annotated, why_unmanaged
from webhook.model.bound_pod import BoundPod
from webhook.model.gates import waits_for_us_alone
from webhook.model.hint_key import HintKey
from webhook.model.membership import AssignedMember, membership_of, unasked_membership_of
from webhook.model.names import PLACEMENT
from webhook.model.placed_condition import placed_condition
from webhook.model.resident import ResidentPod
from webhook.model.rules import Rules
from webhook.records import record

Raw = dict[str, Any]
IsMissed = Callable[[Mapping[str, Any], ResidentPod], bool]
ReadBound = Callable[[Mapping[str, Any], ResidentPod], BoundPod | None]


@record
class PodInfo:
    """The record of a pod and, while it waits for a node, its object.

    The object is whole if the pod is managed or has only our gate; otherwise it has only the name and the uid.
    """

    record: ResidentPod
    waiting: Raw | None
    member: AssignedMember | None = None
    """Its membership in a gang, while it has a node and is neither ended nor being deleted; else None."""
    group: str = ""
    """The gang of `member`; empty without one."""
    unasked: bool = False
    """Whether it was bound before it could get its gang from its owners: `group` is that of its controller's pods."""
    unconfirmed: str = ""
    """Its placement text, while it has a node and its condition `Placed` does not say so yet; else empty."""
    bound: BoundPod | None = None
    """What preemption has to know of it, while it is bound; None where that is off."""

    @classmethod
    def from_object(
        cls,
        raw: Mapping[str, Any],
        rules: Rules,
        key: HintKey,
        is_missed: IsMissed | None = None,
        read_bound: ReadBound | None = None,
    ) -> "PodInfo":
        """Read a pod object; raises UserError.

        key: that of our hints; a hint of an unbound pod without a valid signature is ignored.
        is_missed: whether the pod is managed although no replica saw its creation.
        read_bound: reads what preemption has to know of a pod with a node.
        """
        raw = key.believed(raw)
        record = ResidentPod.from_object(raw)
        missed = is_missed is not None and is_missed(raw, record)
        if record.node or record.terminal:
            if record.hint is None and not record.terminal and (missed or why_unmanaged(raw, rules) is None):
                record = replace(record, unhinted=True)
            bound = None if read_bound is None else read_bound(raw, record)
            return cls(record, None, *_member(raw, record), _unconfirmed(raw, record, rules), bound)
        if missed or is_annotated(raw) or waits_for_us_alone(raw):
            return cls(record, dict(raw), *_member(raw, record), _unconfirmed(raw, record, rules))
        metadata = raw["metadata"]
        return cls(record, {"metadata": {"name": metadata["name"], "uid": metadata.get("uid", "")}, "spec": {}})


def _member(raw: Mapping[str, Any], record: ResidentPod) -> tuple[AssignedMember | None, str, bool]:
    node, membership, unasked = record.node or record.assigned_node, membership_of(raw), False
    if membership is None and record.node:
        membership, unasked = unasked_membership_of(raw), True
    if membership is None or not node or record.terminal or record.deleting:
        return None, "", False
    return AssignedMember.of(raw, node, membership), membership.group, unasked


def _unconfirmed(raw: Mapping[str, Any], record: ResidentPod, rules: Rules) -> str:
    text: str = (raw["metadata"].get("annotations") or {}).get(PLACEMENT, "")
    if not text or record.terminal or record.deleting or not (record.node or record.assigned_node):
        return ""
    if placed_condition(raw).get("status") == "True" or why_unmanaged(raw, rules) is not None:
        return ""
    return text
