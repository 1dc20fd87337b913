"""Reviews of pods that are created."""

from collections.abc import Mapping
from typing import Any

from webhook.formats.kubernetes.admission_review import AdmissionRequest


def review(raw: Mapping[str, Any], user: str = "u", namespace: str = "default") -> AdmissionRequest:
    request = {
        "uid": "1",
        "kind": {"kind": "Pod"},
        "operation": "CREATE",
        "namespace": namespace,
        "object": raw,
        "userInfo": {"username": user},
    }
    return AdmissionRequest.from_object(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )
