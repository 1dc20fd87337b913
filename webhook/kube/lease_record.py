"""The content of a Lease (coordination.k8s.io/v1), and how it is written.

Times in a Lease are the holder's wall clock. They are written for people; we never interpret them as times. A
`renewTime` only has to differ from the previous one.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from math import ceil
from typing import Final

from webhook.kube.api_errors import MalformedAnswerError, mapping_or_empty
from webhook.model.raw import Draft, Raw

RELEASED_ANNOTATION: Final = "topology-webhook.dev/released"


class Release(StrEnum):
    """How a holder released the Lease."""

    SETTLED = "settled"
    """All pods that it had assumed are settled, or visible to every client."""
    UNSETTLED = "unsettled"
    """Some pod that it had assumed may still become visible."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as read. Two records are equal if their contents are equal, whatever else was written to the object."""

    version: str = field(compare=False)
    """The object's resourceVersion."""
    holder: str = ""
    """The holder's identity; empty if there is no holder."""
    transitions: int = 0
    """The number of terms so far."""
    duration: float = 0.0
    """Seconds for which the holder may hold it after each renewal; 0 if it does not say."""
    renewed: str = ""
    """`renewTime` as written; empty if absent."""
    release: Release | None = None
    """How the last holder released it; None if it did not."""

    @classmethod
    def from_object(cls, raw: Raw) -> "LeaseRecord":
        """A Lease from the API server. A field of the wrong type counts as absent.

        Raises MalformedAnswerError without a resourceVersion, because nothing could be written in its place.
        """
        metadata, spec = mapping_or_empty(raw.get("metadata")), mapping_or_empty(raw.get("spec"))
        version = _text(metadata.get("resourceVersion"))
        if not version:
            msg = "the answer is not a Lease: it has no metadata.resourceVersion"
            raise MalformedAnswerError(msg)
        holder = _text(spec.get("holderIdentity"))
        mark = _text(mapping_or_empty(metadata.get("annotations")).get(RELEASED_ANNOTATION))
        return cls(
            version=version,
            holder=holder,
            transitions=_count(spec.get("leaseTransitions")),
            duration=float(_count(spec.get("leaseDurationSeconds"))),
            renewed=_text(spec.get("renewTime")),
            # Another program would not set our annotation; its holder name counts.
            release=Release(mark) if not holder and mark in set(Release) else None,
        )

    @property
    def untouched(self) -> bool:
        """Whether it has had no holder since it was created."""
        return not (self.holder or self.transitions or self.renewed or self.release)


@dataclass(frozen=True, slots=True)
class Claim:
    """What to write into the Lease."""

    holder: str
    transitions: int
    duration: float
    replaces: LeaseRecord | None
    """The content that the Lease must still have when this is written; None: it must not exist."""
    release: Release | None = None
    renews: bool = False
    """Whether the holder stays the same."""

    def body(self, wall: datetime) -> Draft:
        """A merge patch that the API server rejects (409) if the Lease has changed since.

        `wall` must differ from that of the last renewal.
        """
        now = _micro_time(wall)
        spec: Draft = {
            "holderIdentity": self.holder,
            "leaseTransitions": self.transitions,
            "leaseDurationSeconds": ceil(self.duration),
            "renewTime": now,
        }
        if not self.renews and self.release is None:
            spec["acquireTime"] = now
        metadata: Draft = {} if self.renews else {"annotations": {RELEASED_ANNOTATION: self.release}}
        if self.replaces is not None:
            metadata["resourceVersion"] = self.replaces.version
        return {"metadata": metadata, "spec": spec}


def _micro_time(moment: datetime) -> str:
    """The API's MicroTime."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    """A whole number within int32 and not negative; 0 for anything else."""
    return value if type(value) is int and 0 <= value < 2**31 else 0
