"""AdmissionReview v1: the request that the API server sends.

Source: kubernetes admission.k8s.io/v1.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from webhook.model.errors import Malfunction
from webhook.model.fields import NO_FIELDS
from webhook.model.wording import counted

# The longest text that the API server sends: object names have up to 253 characters, a user name can be as long as a
# certificate or token allows. These texts go into log lines and messages, so their length is bounded.
_MAX_TEXT: Final = 1024

API_VERSION: Final = "admission.k8s.io/v1"


class Operation(StrEnum):
    """The operation on the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


_OPERATIONS: Final[Mapping[Any, Operation]] = {operation.value: operation for operation in Operation}


@dataclass(frozen=True, slots=True)
class User:
    """The user who sent the request."""

    username: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One request to admit an object. Objects stay raw: typed models would drop newer fields."""

    uid: str
    group: str
    version: str
    kind: str
    resource: str
    sub_resource: str
    operation: Operation
    namespace: str
    name: str
    """Empty at CREATE if the name is generated."""
    object: Mapping[str, Any]
    """Empty at DELETE."""
    old_object: Mapping[str, Any]
    """Empty at CREATE."""
    user: User
    dry_run: bool
    deadline: float = math.inf
    """When the API server stops waiting for the response, by the event loop's clock."""

    def may_change_metadata_of(self, kind: str) -> bool:
        """Whether the request creates or updates an object of `kind`, or its status.

        A status update can change metadata, too.
        Source: kubernetes pkg/registry/core/{pod,node}/strategy.go: a status update resets the spec, but of the
        metadata little more than owners. Other subresources (resize, ephemeralcontainers) change only their own
        fields.
        """
        is_written = self.operation in {Operation.CREATE, Operation.UPDATE}
        return self.kind == kind and self.sub_resource in {"", "status"} and is_written

    @classmethod
    def from_object(cls, raw: Any, deadline: float = math.inf) -> "AdmissionRequest":
        """Read an AdmissionReview; raises Malfunction for anything else, because only a broken caller sends that.

        Only the shape of the objects' metadata is checked here, because every handler reads the metadata first.
        The code that reads a spec also validates it.
        """
        if not isinstance(raw, dict) or raw.get("kind") != "AdmissionReview":
            raise Malfunction("the body is no AdmissionReview")
        if raw.get("apiVersion") != API_VERSION:
            raise Malfunction(f"apiVersion is not {API_VERSION}, the only supported version")
        request = _fields(raw, "request", "")
        uid = _text(request, "uid", "request")
        if not uid:
            raise Malfunction("the AdmissionReview has no request with a uid")
        operation = _OPERATIONS.get(_text(request, "operation", "request"))
        if operation is None:
            raise Malfunction(f"request.operation is none of {', '.join(_OPERATIONS)}")
        kind, resource = _fields(request, "kind", "request"), _fields(request, "resource", "request")
        user = _fields(request, "userInfo", "request")
        dry_run = request.get("dryRun")
        if not isinstance(dry_run, bool | None):
            raise Malfunction(f"request.dryRun is {_called(dry_run)}, not a boolean")
        _fields(request, "options", "request")
        return cls(
            uid=uid,
            group=_text(kind, "group", "request.kind"),
            version=_text(kind, "version", "request.kind"),
            kind=_text(kind, "kind", "request.kind"),
            resource=_text(resource, "resource", "request.resource"),
            sub_resource=_text(request, "subResource", "request"),
            operation=operation,
            namespace=_text(request, "namespace", "request"),
            name=_text(request, "name", "request"),
            object=_object(request, "object", required=operation in _WITH_OBJECT),
            old_object=_object(request, "oldObject", required=operation in _WITH_OLD_OBJECT),
            user=User(_text(user, "username", "request.userInfo"), _texts(user, "groups", "request.userInfo")),
            dry_run=dry_run is True,
            deadline=deadline,
        )


# Source: apiserver pkg/admission/plugin/webhook/request (what is set at which operation).
_WITH_OBJECT: Final = frozenset({Operation.CREATE, Operation.UPDATE, Operation.CONNECT})
_WITH_OLD_OBJECT: Final = frozenset({Operation.UPDATE})


def _object(request: Mapping[str, Any], name: str, *, required: bool) -> Mapping[str, Any]:
    """The object under review, or its old version; `required` where the API server always sends one."""
    found = _fields(request, name, "request")
    if found is NO_FIELDS:
        if required:
            raise Malfunction(f"request.{name} is missing; the operation requires it")
        return found
    metadata = _fields(found, "metadata", f"request.{name}")
    path = f"request.{name}.metadata"
    for field in ("name", "generateName", "namespace", "uid"):
        _text(metadata, field, path)
    for field in ("annotations", "labels"):
        for value in _fields(metadata, field, path).values():
            if not isinstance(value, str):
                raise Malfunction(f"{path}.{field} has {_called(value)} for a value, not a string")
    return found


# These take the path of `raw`, empty for the whole. The path of a field is put together for an error only: in each
# review that would take longer than to check the field.


def _fields(raw: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    """The object in field `name`; empty if it is absent or null."""
    value = raw.get(name)
    if isinstance(value, dict):
        return value
    if value is None:
        return NO_FIELDS
    raise Malfunction(f"{path and f'{path}.'}{name} is {_called(value)}, not an object")


def _text(raw: Mapping[str, Any], name: str, path: str) -> str:
    """The string in field `name`; empty if it is absent or null."""
    value = raw.get(name)
    if isinstance(value, str):
        if len(value) > _MAX_TEXT:
            raise Malfunction(f"{path}.{name} has {counted(len(value), 'character')}, more than {_MAX_TEXT}")
        return value
    if value is None:
        return ""
    raise Malfunction(f"{path}.{name} is {_called(value)}, not a string")


def _texts(raw: Mapping[str, Any], name: str, path: str) -> tuple[str, ...]:
    """The list of strings in field `name`; empty if it is absent or null."""
    value = raw.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Malfunction(f"{path}.{name} is {_called(value)}, not a list")
    for each in value:
        if not isinstance(each, str):
            raise Malfunction(f"{path}.{name} has {_called(each)} in it, where only strings are allowed")
    return tuple(value)


def _called(value: object) -> str:
    """The JSON name of a value's type. The value itself may have megabytes and is never printed."""
    return _JSON_TYPES.get(type(value), "no JSON")


_JSON_TYPES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}
