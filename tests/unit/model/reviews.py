"""Reviews with one field replaced, and the types that each field may have."""

import copy
from typing import Any


def review(**request: Any) -> dict[str, Any]:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


WHOLE = {
    "uid": "u1",
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "subResource": "binding",
    "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
    "name": "a",
    "namespace": "ml",
    "operation": "UPDATE",
    "userInfo": {"username": "x", "uid": "y", "groups": ["g"], "extra": {"k": ["v"]}},
    "object": {"metadata": {"name": "a", "annotations": {"k": "v"}, "labels": {"k": "v"}}},
    "oldObject": {"metadata": {"name": "a"}},
    "dryRun": False,
    "options": {"kind": "UpdateOptions"},
}


ANY = {"null": None, "boolean": True, "number": 7, "float": 1.5, "string": "x", "list": [1], "object": {"x": 1}}


# path -> the types that the field may have
FIELDS = {
    "uid": {"string"},
    "kind": {"object", "null"},
    "kind.group": {"string", "null"},
    "kind.version": {"string", "null"},
    "kind.kind": {"string", "null"},
    "resource": {"object", "null"},
    "resource.resource": {"string", "null"},
    "subResource": {"string", "null"},
    "name": {"string", "null"},
    "namespace": {"string", "null"},
    "operation": set(),
    "userInfo": {"object", "null"},
    "userInfo.username": {"string", "null"},
    "userInfo.groups": {"null"},
    "object": {"object"},
    "object.metadata": {"object", "null"},
    "object.metadata.name": {"string", "null"},
    "object.metadata.generateName": {"string", "null"},
    "object.metadata.namespace": {"string", "null"},
    "object.metadata.uid": {"string", "null"},
    "object.metadata.annotations": {"null"},
    "object.metadata.annotations.k": {"string"},
    "object.metadata.labels": {"null"},
    "object.metadata.labels.k": {"string"},
    "oldObject": {"object"},
    "oldObject.metadata": {"object", "null"},
    "dryRun": {"boolean", "null"},
    "options": {"object", "null"},
}


def with_field(path: str, value: Any) -> dict[str, Any]:
    """The whole review with this in the request's field."""
    request = copy.deepcopy(WHOLE)
    *outer, last = path.split(".")
    place: Any = request
    for name in outer:
        place = place[name]
    place[last] = value
    return review(**request)
