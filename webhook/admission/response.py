"""The response of a handler: the AdmissionReview, and the fields for logs and metrics.

A response allows the object, allows it with a patch, or denies it. A broken request, or one that this replica cannot
answer now, gets an HTTP error instead (see `server.review_handler`).

Source: controller-runtime pkg/webhook/admission/response.go (Allowed, Patched, Denied); apiserver
pkg/admission/plugin/webhook (what the API server does with a response).
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

from webhook.formats.kubernetes.admission_review import API_VERSION


class Unreserved(Enum):
    """Why nothing is reserved for the pod of a Binding: the code in metrics, and a sentence."""

    USER = "user", "nothing is reserved, as the user is none of --scheduler-users"
    DOUBTED = "doubted", "nothing is reserved, as earlier bindings of this pod or its namespace never came"

    def __init__(self, code: str, sentence: str) -> None:
        self.code: Final = code
        self.sentence: Final = sentence


@dataclass(frozen=True, slots=True)
class Observed:
    """What mode Enforce would have answered, where mode Observe admits the object unchanged."""

    verdict: str
    """allow, change (admitted with a patch), wait, deny, or none: there was no verdict in time."""
    reason: str = ""
    """The reason of a denial, for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logged:
    """The fields for logs and metrics. They are not sent to the API server, and are ignored in comparisons."""

    message: str = field(default="", compare=False)
    """The decision in one line, or why there was none."""
    verdict: str = field(default="allow", compare=False)
    """allow, deny or wait."""
    decided: bool = field(default=False, compare=False)
    """Whether a decision was made. Other responses are only logged at debug level."""
    fit_count: int | None = field(default=None, compare=False)
    """Number of nodes that fit; None if no node was checked."""
    excluded: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Excluded nodes by reason code."""
    not_aligned: bool = field(default=False, compare=False)
    """Whether the pod requests a policy and kubelets do not align it."""
    unreserved: Unreserved | None = field(default=None, compare=False)
    """Why nothing is reserved for the pod; None if something is, or if nothing has to be."""
    observed: Observed | None = field(default=None, compare=False)
    """The answer that was not applied; None except in mode Observe."""
    misrouted: bool = field(default=False, compare=False)
    """Whether the request should have gone to another replica."""


@dataclass(frozen=True, slots=True)
class Allowed(_Logged):
    """The object is admitted unchanged."""

    warnings: tuple[str, ...] = ()

    def to_object(self, uid: str) -> dict[str, Any]:
        """The AdmissionReview that answers the request `uid`."""
        return _review(uid, True, self.warnings)


@dataclass(frozen=True, slots=True)
class Patched(_Logged):
    """The object is admitted with these JSONPatch operations. Only a mutating webhook may return this."""

    patch: Sequence[Mapping[str, Any]]
    warnings: tuple[str, ...] = ()
    base64: str = field(default="", compare=False)
    """The patch as it is sent, if it is encoded already."""

    def encoded(self) -> "Patched":
        """The same with its patch encoded: an answer that is given again is encoded once."""
        return replace(self, base64=_base64(self.patch))

    def to_object(self, uid: str) -> dict[str, Any]:
        """The AdmissionReview that answers the request `uid`."""
        if not self.patch:
            return _review(uid, True, self.warnings)
        encoded = self.base64 or _base64(self.patch)
        return _review(uid, True, self.warnings, patchType="JSONPatch", patch=encoded)


@dataclass(frozen=True, slots=True)
class Denied(_Logged):
    """The user's object is invalid. The response has a reason for programs and a message for people."""

    message: str
    reason: str = "Forbidden"
    warnings: tuple[str, ...] = ()
    verdict: str = field(default="deny", compare=False, kw_only=True)
    decided: bool = field(default=True, compare=False, kw_only=True)

    def to_object(self, uid: str) -> dict[str, Any]:
        """The AdmissionReview that answers the request `uid`."""
        status = {"code": int(HTTPStatus.FORBIDDEN), "reason": self.reason, "message": self.message}
        return _review(uid, False, self.warnings, status=status)


Response = Allowed | Patched | Denied


def _base64(patch: Sequence[Mapping[str, Any]]) -> str:
    return base64.b64encode(json.dumps(patch, separators=(",", ":")).encode()).decode()


def _review(uid: str, allowed: bool, warnings: Sequence[str], **more: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": allowed, **more}
    if warnings:
        # Warnings travel in an HTTP header: the API server drops a warning that has a line break.
        response["warnings"] = [" ".join(warning.split()) for warning in warnings]
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
