"""What cluster autoscalers read and write: ProvisioningRequests, the mark of a gated pod, and labels of node groups.

A ProvisioningRequest (`autoscaling.x-k8s.io`) is made by the leader, and cluster-autoscaler answers in its conditions:

    spec:
      provisioningClassName: best-effort-atomic-scale-up.autoscaling.x-k8s.io
      podSets: [{podTemplateRef: {name: topology-webhook-4f…-0}, count: 4}]
    status: {conditions: [{type: Accepted, status: "True"}, {type: Provisioned, status: "True"}]}

Tenants may write such objects, with our labels, too. So one is ours only if its seal proves it (see `AllocationKey`):
the
seal is for its name and all that it asks for. All others stay as they are.

The mark is the condition `PodScheduled=False` with the reason `Unschedulable`. cluster-autoscaler and Karpenter add
nodes for pods with this condition and without a node. They do not look at scheduling gates. The API server writes the
reason `SchedulingGated` at the creation of a gated pod, and neither it nor kube-scheduler writes the condition again
while the pod is gated.

An autoscaler adds nodes that are like those of a group. A node without a label that names its group is in none: nothing
is known about its group, or no autoscaler adds nodes like it.

Source: autoscaler cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go,
cluster-autoscaler/provisioningrequest/conditions, cluster-autoscaler/processors/provreq (1.33),
cluster-autoscaler/utils/kubernetes/listers.go (isUnschedulable); karpenter pkg/utils/pod/scheduling.go
(IsProvisionable); kubernetes pkg/registry/core/pod/strategy.go (applySchedulingGatedCondition).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from webhook.formats.koordinator.numa_allocation import SEAL, AllocationKey
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.model.json_text import printable

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


Autoscaler = Literal["None", "ClusterAutoscaler", "Karpenter"]
"""The cluster autoscaler that is shown the pods that wait behind the gate."""

ProvisioningClass = Literal[
    "", "check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
]
"""The class of the ProvisioningRequests by which cluster-autoscaler is asked for a gang; empty: pod by pod.

Source: autoscaler cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go.
"""
CHECK_CAPACITY: Final[ProvisioningClass] = "check-capacity.autoscaling.x-k8s.io"

GROUP_LABELS: Final[Mapping[Autoscaler, tuple[str, ...]]] = {
    "None": (),
    # As managed clusters and the installers of others set them; the last one is in cluster-autoscaler's kwok examples.
    "ClusterAutoscaler": (
        "eks.amazonaws.com/nodegroup",
        "alpha.eksctl.io/nodegroup-name",
        "cloud.google.com/gke-nodepool",
        "kubernetes.azure.com/agentpool",
        "agentpool",
        "kops.k8s.io/instancegroup",
        "worker.gardener.cloud/pool",
        "doks.digitalocean.com/node-pool",
        "k8s.scaleway.com/pool-name",
        "lke.linode.com/pool-id",
        "hcloud/node-group",
        "kwok-nodegroup",
    ),
    # It adds nodes of its own pools alone. Source: karpenter pkg/apis/v1/labels.go (NodePoolLabelKey).
    "Karpenter": ("karpenter.sh/nodepool",),
}


def group_of(labels: Mapping[str, str], keys: Iterable[str]) -> tuple[str, str] | None:
    """The first of these labels that a node has, with its value; None if it has none."""
    return next(((key, labels[key]) for key in keys if labels.get(key)), None)


KIND: Final = "ProvisioningRequest"
GROUP: Final = "autoscaling.x-k8s.io"
PLURAL: Final = "provisioningrequests"
VERSIONS: Final = ("v1", "v1beta1")
"""By preference; the fields above have the same names in both."""
MAX_POD_SETS: Final = 32
"""Pod sets of one request, by its CRD."""
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "topology-webhook"}
"""The label of all that we make."""
GANG: Final = "topology-webhook.dev/gang"
"""The annotation with the gang's name."""
GANG_DIGEST: Final = "topology-webhook.dev/gang-digest"
"""The label with a digest of the gang's key."""
POD_SETS_DIGEST: Final = "topology-webhook.dev/pod-sets-digest"
"""The annotation with a digest of the pods that a request is for."""
CONSUMES: Final = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)
"""Annotations of a pod with the request whose nodes it uses: cluster-autoscaler adds no node for the pod itself."""
# As long as a sentence or two of a condition.
_LONGEST_DETAIL: Final = 200


class Answer(StrEnum):
    """What a request's conditions say; the value is the label of a metric."""

    NONE = "Pending"
    ACCEPTED = "Accepted"
    NO_CAPACITY = "NoCapacity"
    PROVISIONED = "Provisioned"
    FAILED = "Failed"
    EXPIRED = "BookingExpired"
    REVOKED = "CapacityRevoked"

    @property
    def is_final(self) -> bool:
        """Whether the autoscaler does nothing more for the request."""
        return self in {Answer.FAILED, Answer.EXPIRED, Answer.REVOKED}


# The first of these conditions that has this status counts: later ones stay when an earlier one comes.
_BY_CONDITION: Final = (
    ("Failed", "True", Answer.FAILED),
    ("CapacityRevoked", "True", Answer.REVOKED),
    ("BookingExpired", "True", Answer.EXPIRED),
    ("Provisioned", "True", Answer.PROVISIONED),
    ("Provisioned", "False", Answer.NO_CAPACITY),
    ("Accepted", "True", Answer.ACCEPTED),
)


@dataclass(frozen=True, slots=True)
class ProvisioningRequest:
    """One request that we made."""

    namespace: str
    name: str
    uid: str
    gang: str
    """The digest of its gang's key."""
    pod_sets: str
    """The digest of the pods that it is for."""
    templates: tuple[str, ...]
    """The names of its PodTemplates."""
    created: int
    """In seconds since the epoch; 0 = not known."""
    answer: Answer
    detail: str
    """The reason and message of the condition that is the answer, in one line."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


def own_request(raw: Mapping[str, Any], key: AllocationKey) -> ProvisioningRequest | None:
    """The request in an object, if we made it; None for all others, whatever is in them."""
    metadata = raw["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    gang, seal = labels.get(GANG_DIGEST), annotations.get(SEAL)
    if not isinstance(gang, str) or not isinstance(seal, str):
        return None
    digest = str(annotations.get(POD_SETS_DIGEST))
    namespace, name = str(metadata.get("namespace")), str(metadata["name"])
    spec = raw.get("spec")
    if not isinstance(spec, Mapping) or not key.has_sealed(seal, *sealed_parts(namespace, name, gang, digest, spec)):
        return None
    answer, detail = _answer(raw.get("status"))
    created = epoch_seconds(metadata.get("creationTimestamp")) or 0
    templates = tuple(str(each["podTemplateRef"]["name"]) for each in spec["podSets"])
    uid = str(metadata.get("uid") or "")
    return ProvisioningRequest(namespace, name, uid, gang, digest, templates, created, answer, detail)


def sealed_parts(namespace: str, name: str, gang: str, digest: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What the seal of a request is for: everything but its status and its owners."""
    asked = json.dumps([spec.get("provisioningClassName"), spec.get("podSets")], sort_keys=True)
    return KIND, namespace, name, gang, digest, asked


def sealed_template_parts(namespace: str, name: str) -> tuple[str, ...]:
    """What the seal of a PodTemplate is for. Its name has a digest of its content."""
    return "PodTemplate", namespace, name


def consumed_by(annotations: Mapping[str, str]) -> str:
    """The request whose nodes a pod with these annotations uses; empty without one."""
    return next((name for each in CONSUMES if (name := annotations.get(each))), "")


def _answer(status: object) -> tuple[Answer, str]:
    """The answer in a status. What has another form than the CRD gives it is no answer."""
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    known = [one for one in conditions if isinstance(one, Mapping)] if isinstance(conditions, list) else []
    for type_, value, answer in _BY_CONDITION:
        for one in known:
            if one.get("type") == type_ and one.get("status") == value:
                return answer, _in_one_line(f"{_text(one, 'reason')}: {_text(one, 'message')}".strip(": "))
    return Answer.NONE, ""


def _text(condition: Mapping[str, Any], field: str) -> str:
    value = condition.get(field)
    return value if isinstance(value, str) else ""


def _in_one_line(text: str) -> str:
    """A text that others wrote, as one clause of a placement text: `;` would end it."""
    line = printable(" ".join(text[: 4 * _LONGEST_DETAIL].replace(";", ",").split()))
    return line if len(line) <= _LONGEST_DETAIL else f"{line[:_LONGEST_DETAIL]}…"
