"""Which pods belong together, also where no annotation of this service says so.

In this order: the gang that the pod's annotations name; the PodGroup of another scheduler; the group of a
LeaderWorkerSet, a JobSet, a job of Kubeflow; an Indexed Job. Pods of other controllers do not depend on each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.model.membership import membership_of
from webhook.model.names import JOB_COMPLETION_INDEX, LWS_GROUP_INDEX

# Source: scheduler-plugins pkg/coscheduling, volcano pkg/apis/scheduling, jobset and Kubeflow's trainer.
_LABELS: Final = ("scheduling.x-k8s.io/pod-group", "jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name")
_VOLCANO: Final = "scheduling.k8s.io/group-name"
_LWS: Final = "leaderworkerset.sigs.k8s.io/name"


@dataclass(frozen=True, slots=True, order=True)
class GangKey:
    """A gang. id: distinguishes gangs of the same name."""

    namespace: str
    name: str
    id: str


def gang_of(raw: Mapping[str, Any]) -> GangKey | None:
    """The gang of a pod; None if it is in none."""
    metadata = raw["metadata"]
    namespace = str(metadata.get("namespace") or "")
    if (membership := membership_of(raw)) is not None:
        return GangKey(namespace, membership.name, membership.group)
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if _LWS in labels:
        name = f"{labels[_LWS]}/{labels.get(LWS_GROUP_INDEX, '0')}"
        return GangKey(namespace, name, _LWS)
    for label in _LABELS:
        if label in labels:
            return GangKey(namespace, str(labels[label]), label)
    if _VOLCANO in annotations:
        return GangKey(namespace, str(annotations[_VOLCANO]), _VOLCANO)
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == "Job" and JOB_COMPLETION_INDEX in annotations:
            return GangKey(namespace, str(owner.get("name", "")), "Job")
    return None
