"""The mark by which cluster autoscalers see a gated pod: `PodScheduled=False` with the reason `Unschedulable`.

cluster-autoscaler and Karpenter add nodes for pods with this condition and without a node. They do not look at
scheduling gates. The API server writes the reason `SchedulingGated` at the creation of a gated pod, and neither it nor
kube-scheduler writes the condition again while the pod is gated.
Source: autoscaler cluster-autoscaler/utils/kubernetes/listers.go (isUnschedulable); karpenter
pkg/utils/pod/scheduling.go (IsProvisionable); kubernetes pkg/registry/core/pod/strategy.go
(applySchedulingGatedCondition).
"""

from collections.abc import Mapping
from typing import Any, Final

_TYPE: Final = "PodScheduled"
_UNSCHEDULABLE: Final = "Unschedulable"
_OURS: Final = "topology-webhook: "
"""The beginning of our message. kube-scheduler's begins with the number of nodes."""
# Three node groups and eight resources take half of it.
_LONGEST_MESSAGE: Final = 1024
_GATED: Final = {
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def scheduled_condition(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition PodScheduled in a pod object; empty if it has none."""
    conditions = (raw.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == _TYPE), {})


def is_marked(raw: Mapping[str, Any]) -> bool:
    """Whether the pod object has our mark."""
    return is_mark(scheduled_condition(raw))


def is_mark(condition: Mapping[str, Any]) -> bool:
    """Whether a condition PodScheduled is our mark, not what kube-scheduler found."""
    said = condition.get("status"), condition.get("reason")
    return said == ("False", _UNSCHEDULABLE) and str(condition.get("message") or "").startswith(_OURS)


def mark(raw: Mapping[str, Any], message: str, now: str) -> dict[str, str]:
    """The condition that marks the pod. now: the time, if the pod has no condition whose time it can keep."""
    return _condition(raw, {"reason": _UNSCHEDULABLE, "message": f"{_OURS}{message}"[:_LONGEST_MESSAGE]}, now)


def unmark(raw: Mapping[str, Any], now: str) -> dict[str, str]:
    """The condition that a gated pod has from its creation."""
    return _condition(raw, _GATED, now)


def _condition(raw: Mapping[str, Any], said: Mapping[str, str], now: str) -> dict[str, str]:
    """Its status stays False, so the time of its last transition stays."""
    found = scheduled_condition(raw)
    since = found.get("lastTransitionTime") if found.get("status") == "False" else None
    return {"type": _TYPE, "status": "False", **said, "lastTransitionTime": since or now}
