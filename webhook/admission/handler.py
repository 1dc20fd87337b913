"""What a webhook's handler answers: the response, and what logs and metrics say of it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from webhook.model.admission_review import AdmissionRequest, AdmissionResponse


class Unreserved(Enum):
    """Why what a Binding is given is not reserved, as metrics name it, and in words."""

    USER = "user", "nothing is reserved, as the user is none of --scheduler-users"
    DOUBTED = "doubted", "nothing is reserved, as earlier bindings of this pod or its namespace never came"

    def __init__(self, code: str, sentence: str) -> None:
        self.code: Final = code
        self.sentence: Final = sentence


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, and what the log and the metrics tell of it."""

    response: AdmissionResponse
    verdict: str
    """allow, deny or wait."""
    decided: bool = False
    """Whether there was something to decide; pods that are none of our affair are not worth a line each."""
    message: str = ""
    fit_count: int | None = None
    """Nodes that fit; None when none was looked at."""
    misrouted: bool = False
    """Whether another replica should have been asked: the connection leads to the wrong one."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """Excluded nodes by reason code."""
    unreserved: Unreserved | None = None
    """Why nothing is reserved of what it gives; None where it is, or gives nothing."""
    not_aligned: bool = False
    """Whether it is about a pod that asks for a policy, and that kubelets do not align."""


Reviewer = Callable[[AdmissionRequest, float], Answer | Awaitable[Answer]]
"""Decides at once, or after waiting for something, before the deadline, a time of the event loop's clock."""


class NotNowError(Exception):
    """Not ours to answer at this moment; another replica, or we a little later, can."""
