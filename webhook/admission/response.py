"""What a handler answers: the admission response, with what logs and metrics say of it.

A response allows the object, allows it with a patch, or denies it. A call that is wrong, or that comes at the wrong
time, gets no response but an HTTP error (see `server.review_handler`).

Source: controller-runtime pkg/webhook/admission/response.go (Allowed, Patched, Denied); apiserver
pkg/admission/plugin/webhook (what the API server does with a response).
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

from webhook.model.admission_review import API_VERSION


class Unreserved(Enum):
    """Why nothing is reserved for the pod of a Binding: the code in metrics, and a sentence."""

    USER = "user", "nothing is reserved, as the user is none of --scheduler-users"
    DOUBTED = "doubted", "nothing is reserved, as earlier bindings of this pod or its namespace never came"

    def __init__(self, code: str, sentence: str) -> None:
        self.code: Final = code
        self.sentence: Final = sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logged:
    """What logs and metrics say of a response. The API server sees none of it, so it does not count in comparisons."""

    message: str = field(default="", compare=False)
    """In one line: what was decided, or why nothing was."""
    verdict: str = field(default="allow", compare=False)
    """allow, deny or wait."""
    decided: bool = field(default=False, compare=False)
    """Whether there was something to decide. Other responses are logged for debugging only."""
    fit_count: int | None = field(default=None, compare=False)
    """Nodes that fit; None when none was checked."""
    excluded: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Excluded nodes by reason code."""
    not_aligned: bool = field(default=False, compare=False)
    """Whether the pod asks for a policy, and kubelets do not align it."""
    unreserved: Unreserved | None = field(default=None, compare=False)
    """Why nothing is reserved for the pod; None where something is, or nothing has to be."""
    misrouted: bool = field(default=False, compare=False)
    """Whether another replica should have got the request: the connection leads to the wrong one."""


@dataclass(frozen=True, slots=True)
class Allowed(_Logged):
    """The object is admitted as it is."""

    warnings: tuple[str, ...] = ()

    def to_object(self, uid: str) -> dict[str, Any]:
        """The AdmissionReview that answers the request `uid`."""
        return _review(uid, True, self.warnings)


@dataclass(frozen=True, slots=True)
class Patched(_Logged):
    """The object is admitted with these JSONPatch operations applied; only a mutating webhook may answer so."""

    patch: Sequence[Mapping[str, Any]]
    warnings: tuple[str, ...] = ()

    def to_object(self, uid: str) -> dict[str, Any]:
        """The AdmissionReview that answers the request `uid`."""
        if not self.patch:
            return _review(uid, True, self.warnings)
        encoded = base64.b64encode(json.dumps(self.patch, separators=(",", ":")).encode()).decode()
        return _review(uid, True, self.warnings, patchType="JSONPatch", patch=encoded)


@dataclass(frozen=True, slots=True)
class Denied(_Logged):
    """The user's object is wrong: refused, with a reason that a program reads and a message that a person reads."""

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


def _review(uid: str, allowed: bool, warnings: Sequence[str], **more: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": allowed, **more}
    if warnings:
        # Warnings travel in an HTTP header: the API server drops one that has a line break.
        response["warnings"] = [" ".join(warning.split()) for warning in warnings]
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
