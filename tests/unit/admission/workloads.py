"""Workloads for the tests of admission, as they are written, and the requests that write them."""

from collections.abc import Mapping
from typing import Any

from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY

RACK = {KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: "rack"}
SPEC = {"containers": [{"name": "main", "image": "i"}]}


def template(annotations: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"annotations": dict(annotations or {})}, "spec": SPEC}


def workload(
    kind: str, api_version: str, spec: Mapping[str, Any], annotations: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    metadata = {"name": "train", "annotations": dict(annotations or {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def job(annotations: Mapping[str, Any] | None = None, on_template: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return workload("Job", "batch/v1", {"parallelism": 2, "template": template(on_template)}, annotations)


def deployment(
    annotations: Mapping[str, Any] | None = None, on_template: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return workload("Deployment", "apps/v1", {"template": template(on_template)}, annotations)


def written(raw: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> AdmissionRequest:
    """The creation of an object, or its update from what it was before."""
    group, _, version = raw["apiVersion"].rpartition("/")
    request = {
        "uid": "u1",
        "kind": {"group": group, "version": version, "kind": raw["kind"]},
        "operation": "CREATE" if before is None else "UPDATE",
        "object": raw,
        "oldObject": before,
    }
    return AdmissionRequest.from_object(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )
