"""An AdmissionReview as the API server sends it."""

from typing import Any

REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u1",
        "operation": "CREATE",
        "namespace": "ns",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": {"metadata": {"generateName": "web-"}},
    },
}
