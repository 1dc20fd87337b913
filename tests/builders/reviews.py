"""Reviews as the API server sends them, and what is expected of the answers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from webhook.admission.response import Allowed, Denied
from webhook.formats.kubernetes.admission_review import AdmissionRequest


def review(
    raw: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    *,
    user: str = "alice",
    groups: Sequence[str] = (),
    deadline: float = math.inf,
    **fields: Any,
) -> AdmissionRequest:
    """The review of an object's creation, or of its update from what it was before. fields: others of the request."""
    group, _, version = raw.get("apiVersion", "v1").rpartition("/")
    request = {
        "uid": "u1",
        "kind": {"group": group, "version": version, "kind": raw.get("kind", "Pod")},
        "operation": "CREATE" if before is None else "UPDATE",
        "namespace": "default",
        "object": raw,
        "oldObject": before,
        "userInfo": {"username": user, **({"groups": list(groups)} if groups else {})},
        **fields,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return AdmissionRequest.from_object(body, deadline)


def binding_review(
    name: str, node: str = "n0", uid: str = "u", *, user: str = "system:kube-scheduler", **how: Any
) -> AdmissionRequest:
    """The review of a Binding of the pod to the node. how: as for any object."""
    metadata = {"name": name, **({"uid": uid} if uid else {})}
    raw = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}
    return review(raw, user=user, **{"subResource": "binding", "name": name, **how})


def denied(response: object) -> Denied:
    """The response, which is a denial."""
    assert isinstance(response, Denied), response
    return response


def warnings(response: object) -> tuple[str, ...]:
    """The warnings of a response that admits the object as it is."""
    assert isinstance(response, Allowed), response
    return response.warnings
