"""What a Lease (coordination.k8s.io/v1) says, and how it is written.

Times in a Lease are the holder's wall clock. They are written for people; nobody here reads them as times. All that is
asked of a `renewTime` is that it differs from the one before.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from math import ceil
from typing import Final

from webhook.kube.api_errors import MalformedAnswerError, mapping_or_empty
from webhook.kube.resource import Raw

RELEASED_ANNOTATION: Final = "topology-webhook.dev/released"


class Release(StrEnum):
    """How a holder gave the lease back."""

    SETTLED = "settled"
    """All that it had promised was done, or visible to everybody."""
    UNSETTLED = "unsettled"
    """Something that it had promised may still become visible."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as read. Two are equal when they say the same, whatever else was written to the object."""

    version: str = field(compare=False)
    """The object's resourceVersion."""
    holder: str = ""
    """The holder's identity; empty when nobody holds it."""
    transitions: int = 0
    """How many terms there have been."""
    duration: float = 0.0
    """Seconds for which the holder may be believed to hold it after each renewal; 0 when it does not say."""
    renewed: str = ""
    """`renewTime` as it stands there; empty when absent."""
    release: Release | None = None
    """How the last holder gave it back; None when it did not."""

    @classmethod
    def from_object(cls, raw: Raw) -> "LeaseRecord":
        """A Lease as the API server sends it. A field that is not of its type counts as absent.

        Raises MalformedAnswerError when there is no resourceVersion: nothing could be written in its place.
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
            # Another program's holder would not know our annotation: its own name counts.
            release=Release(mark) if not holder and mark in set(Release) else None,
        )

    @property
    def untouched(self) -> bool:
        """Whether nobody has held it since it was made."""
        return not (self.holder or self.transitions or self.renewed or self.release)


@dataclass(frozen=True, slots=True)
class Claim:
    """What to write into the Lease."""

    holder: str
    transitions: int
    duration: float
    replaces: LeaseRecord | None
    """What the Lease must still say when this is written; None: that there is none."""
    release: Release | None = None
    renews: bool = False
    """Whether the holder stays the same."""

    def body(self, wall: datetime) -> Raw:
        """A merge patch that the API server refuses (409) unless the Lease is the one that this replaces.

        `wall` must be another one than at the last renewal.
        """
        now = _micro_time(wall)
        spec: Raw = {
            "holderIdentity": self.holder,
            "leaseTransitions": self.transitions,
            "leaseDurationSeconds": ceil(self.duration),
            "renewTime": now,
        }
        if not self.renews and self.release is None:
            spec["acquireTime"] = now
        metadata: Raw = {} if self.renews else {"annotations": {RELEASED_ANNOTATION: self.release}}
        if self.replaces is not None:
            metadata["resourceVersion"] = self.replaces.version
        return {"metadata": metadata, "spec": spec}


def _micro_time(moment: datetime) -> str:
    """The API's MicroTime."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    """A whole number as int32 has it and none below zero; 0 for anything else."""
    return value if type(value) is int and 0 <= value < 2**31 else 0
