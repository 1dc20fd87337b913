"""ProvisioningRequests (`autoscaling.x-k8s.io`) that the leader makes, and what cluster-autoscaler answers to one.

    spec:
      provisioningClassName: best-effort-atomic-scale-up.autoscaling.x-k8s.io
      podSets: [{podTemplateRef: {name: topology-webhook-4f…-0}, count: 4}]
    status: {conditions: [{type: Accepted, status: "True"}, {type: Provisioned, status: "True"}]}

Tenants may write such objects, with our labels, too. So one is ours only if its seal proves it (see `hint_key`): the
seal is for its name and all that it asks for. All others stay as they are.

Source: autoscaler cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go,
cluster-autoscaler/provisioningrequest/conditions, cluster-autoscaler/processors/provreq (1.33).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from webhook.formats.koordinator.hint_key import SEAL, HintKey
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.model.json_text import printable

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


def own_request(raw: Mapping[str, Any], key: HintKey) -> ProvisioningRequest | None:
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
