"""Pods whose node only the scheduler can choose, because these constraints are not simulated here.

- Inter-pod affinity and anti-affinity, topology spread constraints: they depend on where other pods are, by labels.
- Volumes: a claim is bound or provisioned where a node can reach it.
- Host ports, and devices by resource claims.

Such a pod is not pinned to one node, because that node might never accept it. Nor does it block a node: its
reservation is tentative. It ends as soon as the scheduler reports that it cannot bind the pod, or after
`TENTATIVE_SECONDS`.
"""

from typing import Final

from webhook.formats.autoscaling import is_mark, scheduled_condition
from webhook.model.raw import Raw

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_AMONG_PODS: Final = {"podAffinity": "pod affinity", "podAntiAffinity": "pod anti-affinity"}

# The scheduler's first attempt takes milliseconds, and it reports a failure. It does not report all of them (e.g. a
# resource claim that does not exist yet), so a tentative reservation also expires. The sweep adds at most 5 s to this.
TENTATIVE_SECONDS: Final = 5.0
_VOLUMES: Final = ("persistentVolumeClaim", "ephemeral", "csi")


def why_delegated(raw: Raw, *, with_claims: bool = True) -> str | None:
    """The constraint that only the scheduler can judge, in words for users; None if the pod has none.

    with_claims: whether its resource claims count, which the leader may allocate (webhook.placing.pod.claim_alignment).
    """
    spec: Raw = raw.get("spec") or {}
    affinity = spec.get("affinity") or {}
    for kind, name in _AMONG_PODS.items():
        terms = affinity.get(kind) or {}
        if terms.get(_REQUIRED) or terms.get(_PREFERRED):
            return name
    if spec.get("topologySpreadConstraints"):
        return "topology spread constraints"
    if any(volume.get(kind) for volume in spec.get("volumes") or () for kind in _VOLUMES):
        return "volumes"
    if with_claims and spec.get("resourceClaims"):
        return "resource claims"
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if any(port.get("hostPort") for container in containers for port in container.get("ports") or ()):
        return "host ports"
    return None


def delegation_text(why: str) -> str:
    """The beginning of the text for such a pod. why: the result of `why_delegated`."""
    return f"the scheduler chooses the node, for its {why}"


def is_unschedulable(raw: Raw) -> bool:
    """Whether the scheduler found no node in its last attempt, and does not preempt pods on one either.

    Source: kubernetes pkg/scheduler/schedule_one.go (handleSchedulingFailure).
    """
    status: Raw = raw.get("status") or {}
    condition = _scheduled(status)
    return not status.get("nominatedNodeName") and (condition.get("status"), condition.get("reason")) == (
        "False",
        "Unschedulable",
    )


def last_failure(raw: Raw) -> str | None:
    """What the scheduler reports of its last attempt to bind the pod; None if it made none, or bound the pod."""
    condition = _scheduled(raw.get("status") or {})
    failed = condition.get("status") == "False" and condition.get("reason") in {"Unschedulable", "SchedulerError"}
    return str(condition.get("message") or condition["reason"]) if failed else None


def why_untold(raw: Raw) -> str | None:
    """Why the scheduler, which has not reported an attempt for the pod yet, may never do so; None if it will.

    Source: kubernetes pkg/scheduler/framework/plugins/dynamicresources (PreEnqueue). A pod whose claims do not exist
    is not even queued, and nothing is written into it.
    """
    status = _scheduled(raw.get("status") or {}).get("status")
    if not raw["spec"].get("resourceClaims") or status == "True" or last_failure(raw) is not None:
        return None
    return "the scheduler has not tried it; one of its resource claims may not exist"


def _scheduled(status: Raw) -> Raw:
    """The condition PodScheduled as the scheduler wrote it: our own mark for autoscalers says nothing about it."""
    found = scheduled_condition({"status": status})
    return {} if is_mark(found) else found
