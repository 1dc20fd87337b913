"""A pod as the cache keeps it: a small record of a running pod, the whole object of a managed pod that waits."""

from collections.abc import Callable
from dataclasses import replace

from webhook.formats.koordinator.numa_allocation import AllocationKey, NUMAAllocation
from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.formats.kubernetes.gates import is_gated, waits_for_us_alone
from webhook.formats.kubernetes.membership import AssignedMember, membership_of, unasked_membership_of
from webhook.formats.kubernetes.placed_condition import placed_condition
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.errors import UserError
from webhook.model.names import HOSTNAME_LABEL, NUMA_ALLOCATION, PLACEMENT
from webhook.model.raw import Raw
from webhook.records import record
from webhook.state.delegated_pods import why_delegated
from webhook.state.rules import Rules
from webhook.state.unmanaged import is_annotated, why_unmanaged

IsMissed = Callable[[Raw, ResidentPod], bool]
ReadBound = Callable[[Raw, ResidentPod], BoundPod | None]


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
        raw: Raw,
        rules: Rules,
        key: AllocationKey,
        is_missed: IsMissed | None = None,
        read_bound: ReadBound | None = None,
    ) -> "PodInfo":
        """Read a pod object; raises UserError.

        key: that of our allocations; an allocation of an unbound pod without a valid signature is ignored.
        is_missed: whether the pod is managed although no replica saw its creation.
        read_bound: reads what preemption has to know of a pod with a node.
        """
        raw = believed(raw, rules, key)
        record = ResidentPod.from_object(raw)
        missed = is_missed is not None and is_missed(raw, record)
        if record.node or record.terminal:
            if record.allocation is None and not record.terminal and (missed or why_unmanaged(raw, rules) is None):
                record = replace(record, unallocated=True)
            bound = None if read_bound is None else read_bound(raw, record)
            return cls(record, None, *_member(raw, record), _unconfirmed(raw, record, rules), bound)
        if missed or is_annotated(raw) or waits_for_us_alone(raw):
            return cls(record, dict(raw), *_member(raw, record), _unconfirmed(raw, record, rules))
        metadata = raw["metadata"]
        return cls(record, {"metadata": {"name": metadata["name"], "uid": metadata.get("uid", "")}, "spec": {}})


def believed(raw: Raw, rules: Rules, key: AllocationKey) -> Raw:
    """The pod, with its allocation only as far as that counts. The argument is not modified.

    The key may be lost while placed pods are not bound yet. Nothing can unpin them, so without their room on the node
    other pods would be placed there. So the allocation of an ungated pod that can go to its node alone still names it,
    but no NUMA nodes. It reserves what the pod requests, until the scheduler finds that it cannot bind the pod.
    """
    known = key.believed(raw)
    if known is raw or is_gated(raw) or why_unmanaged(raw, rules) or why_delegated(raw, with_claims=False):
        return known
    metadata = raw["metadata"]
    try:
        allocation = NUMAAllocation.parse(metadata["annotations"][NUMA_ALLOCATION])
    except UserError:
        return known
    if not _is_pinned(raw["spec"], allocation.node):
        return known
    kept = allocation if not allocation.reserved else NUMAAllocation.without_numa_nodes(allocation.node)
    annotations = {**metadata["annotations"], NUMA_ALLOCATION: kept.to_json()}
    return {**raw, "metadata": {**metadata, "annotations": annotations}}


def _is_pinned(spec: Raw, node: str) -> bool:
    """Whether the pod can go to this node alone, pinned as a placed pod is (see `affinity_patch`)."""
    if (spec.get("nodeSelector") or {}).get(HOSTNAME_LABEL) == node:
        return True
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    named = {"key": "metadata.name", "operator": "In", "values": [node]}
    return bool(terms) and all(named in (term.get("matchFields") or ()) for term in terms)


def _member(raw: Raw, record: ResidentPod) -> tuple[AssignedMember | None, str, bool]:
    node, membership, unasked = record.node or record.assigned_node, membership_of(raw), False
    if membership is None and record.node:
        membership, unasked = unasked_membership_of(raw), True
    if membership is None or not node or record.terminal or record.deleting:
        return None, "", False
    return AssignedMember.of(raw, node, membership), membership.group, unasked


def _unconfirmed(raw: Raw, record: ResidentPod, rules: Rules) -> str:
    text: str = (raw["metadata"].get("annotations") or {}).get(PLACEMENT, "")
    if not text or record.terminal or record.deleting or not (record.node or record.assigned_node):
        return ""
    if placed_condition(raw).get("status") == "True" or why_unmanaged(raw, rules) is not None:
        return ""
    return text
