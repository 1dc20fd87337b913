"""The CRD of ProvisioningRequests, written from the types and rules that cluster-autoscaler's Go types have."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

GROUP: Final = "autoscaling.x-k8s.io"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAME: Final = f"provisioningrequests.{GROUP}"
_OBJECT_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_REASON: Final = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_IMMUTABLE: Final = [{"rule": "self == oldSelf", "message": "Value is immutable"}]
_POD_SET: Final = {
    "type": "object",
    "required": ["count", "podTemplateRef"],
    "properties": {
        "count": {"type": "integer", "format": "int32", "minimum": 1},
        "podTemplateRef": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 253, "pattern": _OBJECT_NAME}},
        },
    },
}
_SPEC: Final = {
    "type": "object",
    "required": ["podSets", "provisioningClassName"],
    "properties": {
        "podSets": {
            "type": "array",
            "minItems": 1,
            "maxItems": 32,
            "items": _POD_SET,
            "x-kubernetes-validations": _IMMUTABLE,
        },
        "provisioningClassName": {
            "type": "string",
            "maxLength": 253,
            "pattern": _OBJECT_NAME,
            "x-kubernetes-validations": _IMMUTABLE,
        },
        "parameters": {
            "type": "object",
            "maxProperties": 100,
            "additionalProperties": {"type": "string", "maxLength": 255},
            "x-kubernetes-validations": _IMMUTABLE,
        },
    },
}
_CONDITION: Final = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {"type": "string", "maxLength": 316},
    },
}
_STATUS: Final = {
    "type": "object",
    "properties": {
        "conditions": {
            "type": "array",
            "items": _CONDITION,
            "x-kubernetes-list-map-keys": ["type"],
            "x-kubernetes-list-type": "map",
        },
        "provisioningClassDetails": {
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": {"type": "string", "maxLength": 32768},
        },
    },
}
CRD: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    # the API server wants this approval for the group
    "metadata": {
        "name": _NAME,
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/autoscaler/pull/5848"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "kind": "ProvisioningRequest",
            "listKind": "ProvisioningRequestList",
            "plural": "provisioningrequests",
            "singular": "provisioningrequest",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": _SPEC,
                            "status": _STATUS,
                        },
                    }
                },
            }
        ],
    },
}


@contextlib.contextmanager
def provisioning_requests(plane: ControlPlane) -> Iterator[None]:
    """Serve the kind within this context. Its objects are gone afterwards."""
    plane.api.create(CRDS, CRD)
    try:
        plane.wait_for("ProvisioningRequests to be served", lambda: _is_served(plane))
        yield
    finally:
        plane.api.delete(f"{CRDS}/{_NAME}")
        plane.wait_for("the CRD to be gone", lambda: _NAME not in plane.kubectl("get", "customresourcedefinitions"))


def _is_served(plane: ControlPlane) -> bool:
    try:
        plane.api.get(f"/apis/{GROUP}/v1/provisioningrequests")
    except ApiError:
        return False
    return True


def requests_path(namespace: str) -> str:
    """Where the requests of a namespace are."""
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/provisioningrequests"


def requests_of(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    """The requests of a namespace."""
    found: list[dict[str, Any]] = plane.api.get(requests_path(namespace))["items"]
    return found


def templates_of(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    """The PodTemplates of a namespace."""
    found: list[dict[str, Any]] = plane.api.get(f"/api/v1/namespaces/{namespace}/podtemplates")["items"]
    return found
