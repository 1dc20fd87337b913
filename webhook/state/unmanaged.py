"""Which pods are unmanaged, and why."""

from collections.abc import Mapping
from typing import Final

from webhook.formats.kubernetes.membership import GROUP_ANNOTATIONS, is_of_daemon_set, may_be_in_group
from webhook.model.names import MANAGED, MIRROR_POD, NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from webhook.model.raw import Raw
from webhook.state.rules import Rules

# A kubelet sets it: "file" or "http" for static pods, "api" for pods from the API server.
_CONFIG_SOURCE = "kubernetes.io/config.source"

NOT_ANNOTATED: Final = f"no annotation {NUMA_TOPOLOGY_SPEC} or {RESOURCE_SPEC}, and none of a gang"


def asks(annotations: Mapping[str, str]) -> bool:
    """Whether these annotations of a pod request NUMA alignment or a gang themselves."""
    numa = NUMA_TOPOLOGY_SPEC in annotations or RESOURCE_SPEC in annotations
    return numa or not GROUP_ANNOTATIONS.isdisjoint(annotations)


def is_annotated(raw: Raw) -> bool:
    """Whether a pod requests something, may inherit it from its owners, or was covered by `manage` at its creation."""
    annotations = (raw.get("metadata") or {}).get("annotations") or {}
    return asks(annotations) or may_be_in_group(annotations) or MANAGED in annotations


def why_not_mutated(raw: Raw, rules: Rules) -> str | None:
    """Why a pod is not mutated; None if it is."""
    return why_unmanaged(raw, rules) or why_node_is_chosen(raw, rules)


def why_node_is_chosen(raw: Raw, rules: Rules) -> str | None:
    """Why a pod's node is not open to choice, whatever the pod requests; None if it is open."""
    node = (raw.get("spec") or {}).get("nodeName")
    return why_not_scheduled_by_ours(raw, rules) or (f"its node is chosen already: {node}" if node else None)


def why_unmanaged(raw: Raw, rules: Rules) -> str | None:
    """Why a pod, bound or not, is unmanaged; None if it is annotated and one of our schedulers picks its node."""
    return why_not_scheduled_by_ours(raw, rules) if is_annotated(raw) else NOT_ANNOTATED


def why_not_scheduled_by_ours(raw: Raw, rules: Rules) -> str | None:
    """Why none of the schedulers in `rules` picks the pod's node; None if one does.

    The reasons: another scheduler, a DaemonSet, or a kubelet that runs the pod from a file (static pods and their
    mirror pods).
    """
    metadata: Raw = raw.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if MIRROR_POD in annotations or annotations.get(_CONFIG_SOURCE, "api") != "api":
        return "a kubelet runs it from a file (static pod)"
    scheduler = (raw.get("spec") or {}).get("schedulerName") or "default-scheduler"
    if scheduler not in rules.scheduler_names:
        return f"the scheduler {scheduler} places it"
    if is_of_daemon_set(metadata):
        return "its DaemonSet chooses its node"
    return None
