"""AdmissionReview v1: the request the API server sends, and the words it can be answered with.

Source: kubernetes admission.k8s.io/v1; apiserver pkg/admission/plugin/webhook (what it makes of an answer).
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

from webhook.model.errors import Malfunction
from webhook.model.fields import NO_FIELDS

_API_VERSION: Final = "admission.k8s.io/v1"


class Operation(StrEnum):
    """What is done to the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


_OPERATIONS: Final[Mapping[Any, Operation]] = {operation.value: operation for operation in Operation}


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    username: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One request to admit an object. Objects stay as they came: typed models would drop newer fields."""

    uid: str
    group: str
    version: str
    kind: str
    resource: str
    sub_resource: str
    operation: Operation
    namespace: str
    name: str
    """Empty at CREATE when the name is generated."""
    object: Mapping[str, Any]
    """Empty at DELETE."""
    old_object: Mapping[str, Any]
    """Empty at CREATE."""
    user: User
    dry_run: bool

    def may_change_metadata_of(self, kind: str) -> bool:
        """Whether an object of `kind` is created or updated, or its status: that, too, can change its metadata.

        Source: kubernetes pkg/registry/core/{pod,node}/strategy.go: a status update resets the spec, but of the
        metadata little more than owners. Other subresources (resize, ephemeralcontainers) take what they are for.
        """
        is_written = self.operation in {Operation.CREATE, Operation.UPDATE}
        return self.kind == kind and self.sub_resource in {"", "status"} and is_written

    @classmethod
    def from_object(cls, raw: Any) -> "AdmissionRequest":
        """Read an AdmissionReview; raises Malfunction if it is none: only a wrong caller sends such a thing."""
        if not isinstance(raw, Mapping) or raw.get("kind") != "AdmissionReview":
            raise Malfunction("the body is no AdmissionReview")
        if raw.get("apiVersion") != _API_VERSION:
            raise Malfunction(f"AdmissionReview of {raw.get('apiVersion')!r}: only {_API_VERSION} is spoken here")
        request = raw.get("request")
        if not isinstance(request, Mapping) or not request.get("uid"):
            raise Malfunction("the AdmissionReview has no request with a uid")
        operation = _OPERATIONS.get(request.get("operation"))
        if operation is None:
            raise Malfunction(f"the AdmissionReview asks for the unknown operation {request.get('operation')!r}")
        kind = request.get("kind") or NO_FIELDS
        user = request.get("userInfo") or NO_FIELDS
        return cls(
            uid=request["uid"],
            group=kind.get("group", ""),
            version=kind.get("version", ""),
            kind=kind.get("kind", ""),
            resource=(request.get("resource") or NO_FIELDS).get("resource", ""),
            sub_resource=request.get("subResource") or "",
            operation=operation,
            namespace=request.get("namespace") or "",
            name=request.get("name") or "",
            object=request.get("object") or NO_FIELDS,
            old_object=request.get("oldObject") or NO_FIELDS,
            user=User(user.get("username", ""), tuple(user.get("groups") or ())),
            dry_run=request.get("dryRun") is True,
        )


@dataclass(frozen=True, slots=True)
class Allowed:
    """The object may pass as it is."""

    warnings: tuple[str, ...] = ()

    def to_object(self, uid: str) -> dict[str, Any]:
        """The AdmissionReview that answers the request `uid`."""
        return _review(uid, True, self.warnings)


@dataclass(frozen=True, slots=True)
class Patched:
    """The object may pass with these JSONPatch operations applied; only a mutating webhook may say so."""

    patch: Sequence[Mapping[str, Any]]
    warnings: tuple[str, ...] = ()

    def to_object(self, uid: str) -> dict[str, Any]:
        """The AdmissionReview that answers the request `uid`."""
        if not self.patch:
            return _review(uid, True, self.warnings)
        encoded = base64.b64encode(json.dumps(self.patch, separators=(",", ":")).encode()).decode()
        return _review(uid, True, self.warnings, patchType="JSONPatch", patch=encoded)


@dataclass(frozen=True, slots=True)
class Denied:
    """The user's object is wrong: refused, with a reason a program reads and a message a person reads."""

    message: str
    reason: str = "Forbidden"
    warnings: tuple[str, ...] = ()

    def to_object(self, uid: str) -> dict[str, Any]:
        """The AdmissionReview that answers the request `uid`."""
        return _review(uid, False, self.warnings, status=_status(HTTPStatus.FORBIDDEN, self.reason, self.message))


@dataclass(frozen=True, slots=True)
class Errored:
    """Our own failure: refused, and told apart from a verdict on the object."""

    message: str
    code: HTTPStatus = HTTPStatus.INTERNAL_SERVER_ERROR

    def __post_init__(self) -> None:
        if self.code < HTTPStatus.BAD_REQUEST:
            # The API server would turn it into a 400.
            raise Malfunction(f"{self.code} is no error code")

    def to_object(self, uid: str) -> dict[str, Any]:
        """The AdmissionReview that answers the request `uid`."""
        return _review(uid, False, (), status=_status(self.code, "InternalError", self.message))


AdmissionResponse = Allowed | Patched | Denied | Errored


def _status(code: HTTPStatus, reason: str, message: str) -> dict[str, Any]:
    return {"code": int(code), "reason": reason, "message": message}


def _review(uid: str, allowed: bool, warnings: Sequence[str], **more: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": allowed, **more}
    if warnings:
        # Warnings travel in an HTTP header: the API server drops one that has a line break.
        response["warnings"] = [" ".join(warning.split()) for warning in warnings]
    return {"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response}
